package sandbox

import (
	"os"
	"strconv"
)

// processesOf lists the processes that run a program, this one left out.
func processesOf(program string) []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		if exe, err := os.Readlink("/proc/" + e.Name() + "/exe"); err == nil && exe == program {
			out = append(out, pid)
		}
	}
	return out
}
