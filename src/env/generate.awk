# SPDX-License-Identifier: BSD-3-Clause
# Makes from env.tbl, by -v product=fields|rows|man|names: the members of struct px_env, the parser's rows, the man page's
# list, the names. POSIX awk. For the man page a template follows env.tbl: its lines are copied, and a line @variables or
# @foreign is replaced by the list.
BEGIN { FS = " [|] " }
FILENAME !~ /env\.tbl$/ { template($0); next }
/^#/ || NF == 0 { next }
NF != 6 { printf "env.tbl:%d: %d columns, want 6\n", FNR, NF > "/dev/stderr"; exit 1 }
{
    name = $1; type = $2; same = sub(/ same$/, "", type); def = ($3 == "-" ? "" : $3); accepted = ($4 == "-" ? "" : $4); field = tolower(name)
    if (product == "fields" && type != "foreign")
        printf "    %s%s;\n", c_type(type), field
    if (product == "rows")
        print_row()
    if (product == "names" && type != "foreign")
        print "NVSHMEM_" name
    if (product == "man" && type == "foreign")
        add_foreign(name, $6)
    else if (product == "man")
        add_variable($5, $6)
}

function c_type(type) {
    return type == "bool" ? "bool " : type == "int" ? "long " : type == "size" ? "uint64_t " : \
           type == "seconds" ? "unsigned " : "const char *"
}

function print_row(    offset, meaning) {
    offset = type == "foreign" ? "0" : "offsetof(struct px_env, " field ")"
    meaning = $6
    gsub(/"/, "\\\"", meaning)
    printf "    {\"NVSHMEM_%s\", PX_ENV_%s, \"%s\", \"%s\", \"%s\", \"%s\", %s, %s},\n", \
        name, toupper(type), def, accepted, $5, meaning, offset, same ? "true" : "false"
}

# --- the man page ---

# Text becomes mdoc: a line for each sentence, variables marked.
function mdoc(text,    n, words, i, out, word, tail) {
    gsub(/\\/, "\\e", text)
    n = split(text, words, " ")
    for (i = 1; i <= n; i++) {
        word = words[i]
        tail = ""
        if (word ~ /^NVSHMEM_[A-Z0-9_]+[.,;:]?$/) {
            if (match(word, /[.,;:]$/)) {
                tail = " " substr(word, RSTART)
                word = substr(word, 1, RSTART - 1)
            }
            out = out (out == "" || out ~ /\n$/ ? "" : "\n") ".Ev " word tail "\n"
        } else
            out = out (out == "" || out ~ /\n$/ ? "" : " ") word (word ~ /[.]$/ ? "\n" : "")
    }
    sub(/\n$/, "", out)
    return out
}

function type_words() {
    if (type == "bool") return "yes or no"
    if (type == "size") return (name ~ /_MB$/ ? "MiB, " : "bytes, ") accepted
    if (type == "seconds") return "seconds, " accepted
    if (type == "int") return accepted
    if (type == "choice") { gsub(/ /, ", ", accepted); return "one of " accepted }
    return accepted
}

function add_variable(group, meaning) {
    if (!(group in list))
        group_name[++groups] = group
    list[group] = list[group] ".It Ev NVSHMEM_" name "\n" mdoc(meaning) "\n.br\nAccepted: " mdoc(type_words()) (same ? "; the same on all PEs" : "") ".\n" \
        "Default: " (def == "" ? "none" : mdoc(def)) ".\n"
}

function add_foreign(name, meaning) {
    if (!(meaning in foreign))
        reason[++reasons] = meaning
    foreign[meaning] = foreign[meaning] (foreign[meaning] == "" ? "" : " ,\n") ".Ev NVSHMEM_" name
}

function template(line,    i) {
    if (line == "@variables")
        for (i = 1; i <= groups; i++)
            printf ".Ss %s\n.Bl -tag -width Ds\n%s.El\n", \
                toupper(substr(group_name[i], 1, 1)) substr(group_name[i], 2), list[group_name[i]]
    else if (line == "@foreign")
        for (i = 1; i <= reasons; i++)
            printf ".It\n%s\n%s\n", mdoc(reason[i]), foreign[reason[i]]
    else
        print line
}
