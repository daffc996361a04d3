package sandbox

// Host is what compiling needs to know of this host and this caller. [Probe]
// fills it with cheap questions (no child is started); what it reports as
// possible is proved again inside every run by steps that must be denied.
type Host struct {
	Kernel      string // uname release
	Major       int
	Minor       int
	LandlockABI int // 0: Landlock is absent or switched off
	Seccomp     bool
	UID, GID    int
	Groups      int
	// Admin: effective CAP_SYS_ADMIN in the initial user namespace's eyes; mounts,
	// namespaces and cgroups need no user namespace.
	Admin bool
	// UserNS is empty where an ordinary user may make user namespaces, else why not.
	UserNS  string
	LastCap int // highest capability number of the kernel
	PID     int
	PPID    int
	// TTY: the caller has a controlling terminal.
	TTY bool
	// Leader: the caller leads its process group, so setsid cannot be called in place.
	Leader bool
	// Delegated: a cgroup v2 subtree that the caller may write to was found.
	Delegated bool
	// Broker: the runner's service holds the cgroup and its egress entry.
	Broker bool
	FS     FS
}

// atLeast reports whether the kernel is at least major.minor.
func (h *Host) atLeast(major, minor int) bool {
	return h.Major > major || h.Major == major && h.Minor >= minor
}
