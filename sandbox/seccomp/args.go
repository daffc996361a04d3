package seccomp

// Outcomes that depend on the Spec or on arguments. An argument is named by its place, from 0.

// unless opens a group of calls that an addition names.
func (b *builder) unless(addition string) *node {
	for _, a := range b.Additions {
		if a == addition {
			return b.allow()
		}
	}
	return b.refuse()
}

func (b *builder) keyring() *node     { return b.unless(additionKeyring) }
func (b *builder) perf() *node        { return b.unless(additionPerf) }
func (b *builder) userfaultfd() *node { return b.unless(additionUserfaultfd) }

func (b *builder) ipc() *node {
	if b.SysVIPC {
		return b.allow()
	}
	return b.refuse()
}

// clone(flags, …): the kernel takes the low 32 bits of flags. No new namespace (an unprivileged user namespace
// opens most of the kernel's attack surface), and no child for the process that started the run.
func (b *builder) clone() *node {
	return b.anyBit(0, cloneNewMask|cloneParent, b.refuse(), b.allow())
}

// socket(domain, type, protocol): no vsock (reaches the hypervisor), packet, alg, bluetooth …; raw sockets and every
// protocol beside TCP and UDP are refused, since Landlock and cgroup programs do not see them all
// (MPTCP: landlock-lsm/linux#54). Netlink is rtnetlink only, for getifaddrs.
func (b *builder) socket() *node {
	inet := b.refuse()
	if b.AllowInet {
		proto := b.choose(2, ^uint32(0), b.refuse(), choice{[]uint32{0, protoTCP, protoUDP}, b.allow()})
		inet = b.choose(1, sockTypes, b.refuse(), choice{[]uint32{sockStream, sockDgram}, proto})
	}
	netlink := b.choose(2, ^uint32(0), b.refuse(), choice{[]uint32{nlRoute}, b.allow()})
	if b.Strict && !b.AllowInet {
		netlink = b.refuse()
	}
	return b.choose(0, ^uint32(0), b.refuse(),
		choice{[]uint32{afUnix}, b.allow()},
		choice{[]uint32{afInet, afInet6}, inet},
		choice{[]uint32{afNetlink}, netlink})
}

func (b *builder) socketpair() *node {
	return b.choose(0, ^uint32(0), b.refuse(), choice{[]uint32{afUnix}, b.allow()})
}

// TCP Fast Open connects without connect(2), so past Landlock's connect right (landlock-lsm/linux#41).
func (b *builder) flagsArg2() *node { return b.anyBit(2, msgFastopen, b.refuse(), b.allow()) }
func (b *builder) flagsArg3() *node { return b.anyBit(3, msgFastopen, b.refuse(), b.allow()) }

// setsockopt(fd, level, name, …): Fast Open by option, and upper-layer protocols put onto a TCP socket
// (kTLS, espintcp, smc), which users replace by their own code when refused.
func (b *builder) setsockopt() *node {
	name := b.choose(2, ^uint32(0), b.allow(), choice{[]uint32{tcpFastopenConnect, tcpULP}, b.refuse()})
	return b.choose(1, ^uint32(0), b.allow(), choice{[]uint32{solTCP}, name})
}

// ioctl(fd, cmd, …): cmd is an unsigned int. Input pushed into a terminal (TIOCSTI, TIOCLINUX's paste), a console's
// output taken (TIOCCONS), line disciplines loaded (TIOCSETD).
func (b *builder) ioctl() *node { return b.ioctlBut() }

// In strict also inode flags, project ids and versions, which need only a descriptor opened for reading.
func (b *builder) ioctlStrict() *node {
	return b.ioctlBut(fsIocSetflags, fsIoc32Setflags, fsIocFssetxattr,
		fsIocSetversion, fsIoc32Setversion, ext4IocSetversionOld, ext4Ioc32SetversionOld)
}

func (b *builder) ioctlBut(more ...uint32) *node {
	return b.choose(1, ^uint32(0), b.allow(),
		choice{append([]uint32{tiocsti, tioclinux, tioccons, tiocsetd}, more...), b.refuse()})
}

// self: argument 0 is a pid that may only be 0, the caller.
func (b *builder) self() *node {
	if b.OwnPidNS {
		return b.allow()
	}
	return b.choose(0, ^uint32(0), b.refuse(), choice{[]uint32{0}, b.allow()})
}

// prlimit64(pid, resource, new, old): reading is allowed, changing another's limits is not.
func (b *builder) prlimit() *node {
	if b.OwnPidNS {
		return b.allow()
	}
	read := b.isZero64(2, b.allow(), b.refuse())
	return b.choose(0, ^uint32(0), read, choice{[]uint32{0}, b.allow()})
}

// setpriority(which, who, …) and ioprio_set: a process, never a group or a user. The caller's process group
// may have members outside the run even with a pid namespace, when the run shares the caller's terminal.
func (b *builder) setpriority() *node { return b.selfWhich(prioProcess) }
func (b *builder) ioprioSet() *node   { return b.selfWhich(ioprioWhoProcess) }

func (b *builder) selfWhich(process uint32) *node {
	who := b.allow()
	if !b.OwnPidNS {
		who = b.choose(1, ^uint32(0), b.refuse(), choice{[]uint32{0}, b.allow()})
	}
	return b.choose(0, ^uint32(0), b.refuse(), choice{[]uint32{process}, who})
}

// personality(p): the query, the default, and gdb's. READ_IMPLIES_EXEC and foreign ABIs are refused.
func (b *builder) personality() *node {
	return b.choose(0, ^uint32(0), b.refuse(), choice{[]uint32{0, personalityQuery, personalityNoRandom}, b.allow()})
}

func (b *builder) personalityStrict() *node {
	return b.choose(0, ^uint32(0), b.refuse(), choice{[]uint32{0, personalityQuery}, b.allow()})
}

// mknod(path, mode, …) and mknodat(dir, path, mode, …): no devices, also none that overlayfs takes as whiteout.
func (b *builder) mknod() *node   { return b.anyBit(1, modeDevice, b.refuse(), b.allow()) }
func (b *builder) mknodat() *node { return b.anyBit(2, modeDevice, b.refuse(), b.allow()) }
