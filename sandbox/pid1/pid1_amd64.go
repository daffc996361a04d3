package pid1

import _ "embed"

// Binary is the init as an ELF executable.
//
//go:embed init_amd64.elf
var Binary []byte
