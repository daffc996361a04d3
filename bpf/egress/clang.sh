#!/bin/sh
# The committed objects are the output of exactly this compiler.
set -eu
want=14.0.6
have=$(clang-14 -dumpversion 2>/dev/null) || have=none
if [ "$have" != "$want" ]; then
	echo "bpf/egress: the objects are built by clang $want, here is $have (Debian 12: apt-get install clang-14 llvm-14)" >&2
	exit 1
fi
rm -f ./*_bpfel.go ./*_bpfel.o
