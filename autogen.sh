#!/bin/sh
# Make configure from configure.ac; needs autoconf, automake, libtool and pkg-config.
set -e
cd "$(dirname "$0")"
for tool in autoreconf automake libtoolize pkg-config; do
    command -v $tool >/dev/null || { echo "autogen.sh: $tool is missing: apt-get install autoconf automake libtool pkg-config (RHEL: dnf install autoconf automake libtool pkgconf)" >&2; exit 1; }
done
mkdir -p build-aux m4
exec autoreconf --install "$@"
