# SPDX-License-Identifier: BSD-3-Clause
# Compares the synopses of pages with the prototypes that the tables give, both ways; prints what differs.
#   awk -f prototypes.awk types.tbl prototypes.txt aliases.txt PAGE...
# A prototype on a page stands for all that come out of it when TYPENAME and TYPE, SIZE and OP are replaced. POSIX awk.
FILENAME ~ /types\.tbl$/ {
    if (!/^#/ && split($0, part, /[ \t]*[|][ \t]*/) >= 4) {
        if (" " part[4] " " ~ / size /) sizes[part[1]] = 1
        else if (" " part[4] " " !~ / mem /) types[part[1]] = part[2]
    }
    next
}
FILENAME ~ /prototypes\.txt$/ { split($0, part, "\t"); wanted[part[1]] = part[2]; next }
FILENAME ~ /aliases\.txt$/ { page_of[$2] = $1; next }
FNR == 1 { page = FILENAME; sub(/^.*\//, "", page); sub(/[.]3$/, "", page); synopsis = 0 }
/^[.]Sh / { synopsis = $2 == "SYNOPSIS" }
!synopsis { next }
$1 == ".Ft" { result = rest() }
$1 == ".Fo" { name = $2; list = "" }
$1 == ".Fa" { list = list (list == "" ? "" : ", ") rest() }
$1 == ".Fc" { spread(name, result (result ~ /[*]$/ ? "" : " ") name "(" list ")") }
END {
    for (name in wanted)
        if (!(name in found)) print "no synopsis of " name
}

# The words behind the macro, without quotes.
function rest(    text) {
    text = $0
    sub(/^[.][A-Z][a-z] /, "", text)
    gsub(/"/, "", text)
    return text
}

function spread(name, proto,    n, words, i, w) {
    hits = 0
    if (name ~ /_OP/) {
        n = split("and or xor max min sum prod", words, " ")
        for (i = 1; i <= n; i++) spread_types(with(name, "OP", words[i]), with(proto, "OP", words[i]))
    } else if (name ~ /SIZE/)
        for (w in sizes) compare(with(name, "SIZE", w), with(proto, "SIZE", w))
    else
        spread_types(name, proto)
    if (!hits) print page ": no function is meant by " proto
}

function with(text, mark, word) { gsub(mark, word, text); return text }

function spread_types(name, proto,    t) {
    if (name !~ /TYPENAME/) { compare(name, proto); return }
    for (t in types) compare(with(name, "TYPENAME", t), with(with(proto, "TYPENAME", t), "TYPE", types[t]))
}

function compare(name, proto) {
    if (!(name in wanted) || page_of[name] != page) return
    hits++
    found[name] = 1
    if (wanted[name] != proto) print page ": has " proto ", the header " wanted[name]
}
