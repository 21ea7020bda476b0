# SPDX-License-Identifier: BSD-3-Clause
# The way from one folder to another: awk -v from=/a/lib/pkgconfig -v to=/a/include -f relative.awk gives ../../include.
BEGIN {
    n = parts(from, f)
    m = parts(to, t)
    for (same = 0; same < n && same < m && f[same + 1] == t[same + 1]; same++)
        ;
    for (i = same; i < n; i++)
        way = way (way == "" ? "" : "/") ".."
    for (i = same + 1; i <= m; i++)
        way = way (way == "" ? "" : "/") t[i]
    print way == "" ? "." : way
}

function parts(path, list) {
    gsub(/\/+/, "/", path)
    sub(/^\//, "", path)
    sub(/\/$/, "", path)
    return split(path, list, "/")
}
