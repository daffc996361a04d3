package sandbox

import (
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"lockbox/profiles"
)

// Landlock access rights by ABI version, from the kernel's own table
// (https://docs.kernel.org/userspace-api/landlock.html#previous-limitations).
const (
	fileRights = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev

	readRights = ll.AccessFSReadFile | ll.AccessFSReadDir
	// Device nodes are never granted: making one needs a capability that no run
	// has, and its refusal is the canary that proves the ruleset.
	writeRights = ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSTruncate
	execRights = ll.AccessFSExecute
)

// handledFS returns the file access rights that a ruleset of this ABI handles:
// all that the kernel knows, so that what no rule grants is denied.
func handledFS(abi int) uint64 {
	h := uint64(1<<13) - 1 // ABI 1, since 5.13: execute … make_sym
	if abi >= 2 {          // since 5.19
		h |= ll.AccessFSRefer
	}
	if abi >= 3 { // since 6.2
		h |= ll.AccessFSTruncate
	}
	if abi >= 5 { // since 6.10
		h |= ll.AccessFSIoctlDev
	}
	if abi >= 9 { // connecting to a socket by its path
		h |= ll.AccessFSResolveUnix
	}
	return h
}

// scopes returns the IPC scopes that a ruleset of this ABI takes (since 6.12, ABI 6).
func scopes(abi int) uint64 {
	if abi >= 6 {
		return ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	return 0
}

// rights maps a profile's access to Landlock rights for a directory or a file,
// limited to what the ABI handles.
func rights(a profiles.Access, dir bool, abi int) uint64 {
	var r uint64
	if a&profiles.Read != 0 {
		r |= readRights
	}
	if a&profiles.Write != 0 {
		r |= writeRights
		if abi >= 9 {
			r |= ll.AccessFSResolveUnix // sockets that the run itself made there
		}
	}
	if a&profiles.Exec != 0 {
		r |= execRights
	}
	if !dir {
		r &= fileRights | ll.AccessFSResolveUnix
	}
	return r & handledFS(abi)
}
