# SPDX-License-Identifier: BSD-3-Clause
# The rows of types.tbl as a column list, where the template that follows says @types. POSIX awk.
BEGIN { FS = "[ \t]*[|][ \t]*"; columns = split("data number bit amo amo-set amo-bit wait distinct", column, " ") }
FILENAME ~ /types\.tbl$/ {
    if (/^#/ || NF < 4 || " " $4 " " ~ / (size|mem) /)
        next
    rows = rows ".It " $1 " Ta \"" $2 "\""
    for (i = 1; i <= columns; i++)
        rows = rows " Ta " (index(" " $4 " ", " " column[i] " ") ? "x" : "\\&")
    rows = rows "\n"
    next
}
$0 == "@types" {
    printf ".Bl -column \"ulonglong\" \"nvshmemx_bfloat16_t\""
    for (i = 1; i <= columns; i++)
        printf " \"%s\"", column[i]
    printf "\n.It Sy TYPENAME Ta Sy TYPE"
    for (i = 1; i <= columns; i++)
        printf " Ta Sy %s", column[i]
    printf "\n%s.El\n", rows
    next
}
{ print }
