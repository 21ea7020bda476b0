#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The manual as one HTML tree: html.sh SOURCES BUILT OUT. Every page is OUT/NAME.SECTION.html; the index is the overview page
# pxshmem(7), whose lists are ordered by task. Names of typed functions lead to the page of their family.
set -eu
sources=$1 built=$2 out=$3
command -v mandoc >/dev/null || { echo "make html needs mandoc" >&2; exit 1; }
mkdir -p "$out"
cp "$sources/style.css" "$out/"
for page in "$sources"/man1/*.1 "$sources"/man3/*.3 "$sources"/man7/*.7 "$built"/man7/*.7; do
    [ -e "$page" ] || continue
    mandoc -T html -O style=style.css,man=%N.%S.html,toc "$page" |
        sed 's|<head>|&<meta name="viewport" content="width=device-width, initial-scale=1"/>|
             s|<body>|&<nav><a href="index.html">pxshmem</a></nav>|' >"$out/$(basename "$page").html"
done
cp "$out/pxshmem.7.html" "$out/index.html"
# A link to a name without a page of its own goes to the page of its family; one to a page of other software is none.
cat "$out"/*.html | tr '>' '\n' | sed -n 's/^.*href="\([^"#:]*[.]html\)".*/\1/p' | sort -u |
    while read -r page; do
        [ -e "$out/$page" ] || echo "$page"
    done | awk '
        NR == FNR { page[$2 ".3.html"] = $1 ".3.html"; next }
        $1 in page { print "s|href=\"" $1 "\"|href=\"" page[$1] "\"|g"; next }
        { print "s| href=\"" $1 "\"||g" }' "$built/aliases.txt" - >"$out/links.sed"
for page in "$out"/*.html; do
    sed -f "$out/links.sed" "$page" >"$page.tmp" && mv "$page.tmp" "$page"
done
rm "$out/links.sed"
