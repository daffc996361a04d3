#!/bin/bash
# Builds init.c for each architecture. The compiler is pinned, so that the
# committed files can be reproduced byte for byte.
set -euo pipefail
cd "$(dirname "$0")"
want=14
CLANG=${CLANG:-clang-$want} LLD=${LLD:-ld.lld-$want}
for t in "$CLANG" "$LLD" "llvm-strip-$want"; do
	command -v "$t" >/dev/null || { echo "build.sh: $t is missing: apt-get install clang-$want lld-$want llvm-$want" >&2; exit 1; }
done
case $("$CLANG" --version | head -1) in *"clang version $want."*|*"version $want."*) ;; *) echo "build.sh: clang $want is needed" >&2; exit 1;; esac
for a in amd64:x86_64 arm64:aarch64; do
	o=init_${a%%:*}
	"$CLANG" --target="${a##*:}-linux-gnu" -Os -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables \
		-fno-pic -fomit-frame-pointer -fno-ident -Wall -Werror -c src/init.c -o "$o.o"
	"$LLD" -static -nostdlib --build-id=none -z noseparate-code -z nognustack -e _start "$o.o" -o "$o.elf"
	"llvm-strip-$want" --strip-all "$o.elf"
	rm -f "$o.o"
done
