# SPDX-License-Identifier: BSD-3-Clause
# Makes from env.tbl, by -v product=fields|rows|man: the members of struct px_env, the parser's rows, the man page's list.
# POSIX awk.
BEGIN { FS = " [|] " }
/^#/ || NF == 0 { next }
NF != 6 { printf "env.tbl:%d: %d columns, want 6\n", FNR, NF > "/dev/stderr"; exit 1 }
{
    name = $1; type = $2; def = ($3 == "-" ? "" : $3); accepted = ($4 == "-" ? "" : $4); field = tolower(name)
    ctype = type == "bool" ? "bool " : type == "int" ? "long " : type == "size" ? "uint64_t " : \
            type == "seconds" ? "unsigned " : "const char *"
    if (product == "fields" && type != "foreign")
        printf "    %s%s;\n", ctype, field
    if (product == "rows") {
        offset = type == "foreign" ? "0" : "offsetof(struct px_env, " field ")"
        meaning = $6
        gsub(/"/, "\\\"", meaning)
        printf "    {\"NVSHMEM_%s\", PX_ENV_%s, \"%s\", \"%s\", \"%s\", \"%s\", %s},\n", \
            name, toupper(type), def, accepted, $5, meaning, offset
    }
    if (product == "man" && type != "foreign") {
        if ($5 != group) { printf ".Ss %s\n", toupper(substr($5, 1, 1)) substr($5, 2); if (group != "") ; group = $5 }
        printf ".Bl -tag -width Ds -compact\n.It Ev NVSHMEM_%s Pq %s%s%s\n%s\n.El\n.Pp\n", \
            name, type, (def != "" ? ", default " def : ""), (accepted != "" ? "; accepts " accepted : ""), $6
    }
}
