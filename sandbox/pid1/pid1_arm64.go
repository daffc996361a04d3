package pid1

import _ "embed"

// Binary is the init as an ELF executable.
//
//go:embed init_arm64.elf
var Binary []byte
