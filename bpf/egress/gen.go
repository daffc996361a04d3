package egress

//go:generate ./clang.sh
//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -Wno-unused-function -mcpu=v3" main egress.bpf.c
//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -Wno-unused-function -mcpu=v3" sock unix.bpf.c
//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -Wno-unused-function -mcpu=v3" level level.bpf.c
