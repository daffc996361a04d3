package sandbox

import "syscall"

// errNotDir is what a look-up below a file answers.
var errNotDir error = syscall.ENOTDIR
