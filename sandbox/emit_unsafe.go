package sandbox

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/sandbox/script"
)

// emitter lays the plan's steps out in memory for one start.
type emitter struct {
	b       *script.Builder
	p       *Plan
	so      StartOptions
	ruleset int        // Landlock ruleset, made by the parent, filled by the child
	root    script.Reg // descriptor of the run's new root
	oldRoot script.Reg
	guard   script.Reg // descriptor that close_range must have marked
	scratch script.Reg // tmpfs behind masks and private directories
	seals   []script.Reg
	masks   map[string]bool
	closed  map[string]bool // skeleton directories that can be passed through, not listed
	made    map[string]bool // skeleton entries that exist already
	filter  *unix.SockFprog
	umask   script.Reg // the caller's umask
	ack     []byte     // answer to the loopback message, nil where none was sent
}

func (e *emitter) call(call, what string, nr uintptr, args []any, opts ...script.Option) {
	if e.p.without != nil && e.p.without(call, what) {
		return
	}
	e.b.Call(script.Step{Call: call, What: what}, nr, args, opts...)
}

// openat2 opens a host path as an O_PATH descriptor without following any
// symlink: what a run could replace never redirects a rule (CVE class:
// symlink exchange). openat2 is Linux 5.6.
func (e *emitter) openPath(p string, dir bool, at any, r script.Reg) {
	e.openHow(p, dir, at, r, 0)
}

// openName opens the name itself, also where it is a symlink: what closes a
// path covers the link, not its target.
func (e *emitter) openName(p string, dir bool, at any, r script.Reg) {
	e.openHow(p, dir, at, r, unix.O_NOFOLLOW)
}

func (e *emitter) openHow(p string, dir bool, at any, r script.Reg, flags uint64) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if dir {
		how.Flags |= unix.O_DIRECTORY
	}
	e.call("openat2", p+" without following links", unix.SYS_OPENAT2,
		[]any{at, p, unsafe.Pointer(how), int(unsafe.Sizeof(*how))}, script.Out(r))
}

func (e *emitter) close(r script.Reg) {
	e.call("close", "", unix.SYS_CLOSE, []any{r})
	e.b.Free(r)
}

// clone makes a detached copy of the mount tree at a descriptor (Linux 5.2).
func (e *emitter) clone(what string, from, to script.Reg) {
	e.call("open_tree", what+": clone", unix.SYS_OPEN_TREE,
		[]any{from, "", unix.AT_EMPTY_PATH | unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE}, script.Out(to))
}

// attributes sets and clears mount attributes (mount_setattr, Linux 5.12).
func (e *emitter) attributes(what string, r script.Reg, set, clr uint64, recursive bool) {
	attr := &unix.MountAttr{Attr_set: set, Attr_clr: clr}
	flags := unix.AT_EMPTY_PATH
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	e.call("mount_setattr", what, unix.SYS_MOUNT_SETATTR, []any{r, "", flags, unsafe.Pointer(attr), int(unsafe.Sizeof(*attr))})
}

// moveOnto attaches a detached tree at a path below the new root.
func (e *emitter) moveOnto(what string, tree script.Reg, p string, skeleton bool) {
	if skeleton {
		e.call("move_mount", what, unix.SYS_MOVE_MOUNT, []any{tree, "", e.root, rel(p), unix.MOVE_MOUNT_F_EMPTY_PATH})
		return
	}
	at := e.b.NewReg()
	e.openPath(rel(p), false, e.root, at)
	e.moveOntoFD(what, tree, at)
	e.close(at)
}

func (e *emitter) moveOntoFD(what string, tree, at script.Reg) {
	e.call("move_mount", what, unix.SYS_MOVE_MOUNT, []any{tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH})
}

// newFS makes a detached mount of a file system (fsopen and fsmount, Linux 5.2).
func (e *emitter) newFS(fstype string, options [][2]string, attrs uint64, to script.Reg) {
	fs := e.b.NewReg()
	e.call("fsopen", fstype, unix.SYS_FSOPEN, []any{fstype, unix.FSOPEN_CLOEXEC}, script.Out(fs))
	for _, o := range options {
		e.call("fsconfig", fstype+" "+o[0]+"="+o[1], unix.SYS_FSCONFIG, []any{fs, unix.FSCONFIG_SET_STRING, o[0], o[1], 0})
	}
	e.call("fsconfig", fstype+" create", unix.SYS_FSCONFIG, []any{fs, unix.FSCONFIG_CMD_CREATE, 0, 0, 0})
	e.call("fsmount", fstype, unix.SYS_FSMOUNT, []any{fs, unix.FSMOUNT_CLOEXEC, attrs}, script.Out(to))
	e.close(fs)
}

// mkdirs makes the skeleton directories down to p, and p itself as a directory
// or an empty file.
func (e *emitter) mkdirs(p string, dir bool) {
	if p == "/" || e.made[p] {
		return
	}
	e.mkdirs(path.Dir(p), true)
	e.made[p] = true
	if dir {
		mode := 0o755
		if e.closed[path.Dir(p)] {
			mode, e.closed[p] = 0o111, true
		}
		e.call("mkdirat", p, unix.SYS_MKDIRAT, []any{e.root, rel(p), mode})
		return
	}
	e.call("mknodat", p, unix.SYS_MKNODAT, []any{e.root, rel(p), unix.S_IFREG | 0o444, 0})
}

// rule adds a Landlock rule on the file behind a descriptor.
func (e *emitter) rule(what string, r script.Reg, allowed uint64) {
	if allowed == 0 {
		return
	}
	attr := &landlockPathBeneath{AllowedAccess: allowed}
	e.b.Store(&attr.ParentFd, r)
	e.call("landlock_add_rule", what, unix.SYS_LANDLOCK_ADD_RULE,
		[]any{e.ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(attr), 0})
}

// landlockPathBeneath is struct landlock_path_beneath_attr (packed: 12 bytes
// read; Go's trailing padding does not matter to the kernel).
type landlockPathBeneath struct {
	AllowedAccess uint64
	ParentFd      int32
}

// namespacesInPlace unshares what clone3 would have made.
func (e *emitter) namespacesInPlace() {
	e.call("unshare", e.p.namespaceNames(), unix.SYS_UNSHARE, []any{e.p.namespaces})
}

// writeFile writes a small file, for the id maps.
func (e *emitter) writeFile(p, content string) {
	r := e.b.NewReg()
	e.call("openat", p, unix.SYS_OPENAT, []any{unix.AT_FDCWD, p, unix.O_WRONLY | unix.O_CLOEXEC, 0}, script.Out(r))
	e.call("write", p+" "+strings.TrimSpace(content), unix.SYS_WRITE, []any{r, []byte(content), len(content)}, script.WantResult(uintptr(len(content))))
	e.close(r)
}

func (e *emitter) private() {
	e.call("mount", "/ private, recursively", unix.SYS_MOUNT, []any{0, "/", 0, unix.MS_REC | unix.MS_PRIVATE, 0})
}

// overProc attaches a detached tree over /proc of the old root. No rule can name
// /proc, so it hides no source; and a tree can only be cloned in part once it is
// attached (before Linux 6.15).
func (e *emitter) overProc(what string, r script.Reg) {
	e.call("move_mount", what, unix.SYS_MOVE_MOUNT, []any{r, "", unix.AT_FDCWD, "/proc", unix.MOVE_MOUNT_F_EMPTY_PATH})
}

// newRoot makes the run's root: a tmpfs that holds the skeleton, or a read-only
// copy of the host's where the profile grants "/"; then the tmpfs is only the
// place behind the private directories and the masks. A tmpfs without limits may
// take half of the memory (tmpfs(5)).
func (e *emitter) newRoot(whole *node) {
	e.root, e.oldRoot = e.b.NewReg(), e.b.NewReg()
	e.call("openat", "the old root", unix.SYS_OPENAT, []any{unix.AT_FDCWD, "/", unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, 0}, script.Out(e.oldRoot))
	e.scratch = e.b.NewReg()
	e.newFS("tmpfs", [][2]string{{"mode", "0755"}, {"size", "25%"}, {"nr_inodes", "200k"}}, unix.MOUNT_ATTR_NOSUID|e.noDevices(), e.scratch)
	if whole == nil {
		e.root = e.scratch
	} else {
		e.overProc("scratch tmpfs over /proc", e.scratch)
		e.clone("/", e.oldRoot, e.root)
		e.attributes("/: "+attrNames(whole.attrs()), e.root, whole.attrs(), 0, true)
	}
	e.overProc("new root over /proc", e.root)
	e.seals = append(e.seals, e.root)
	if whole != nil {
		e.grant(whole, e.root)
	}
}

// noDevices keeps device nodes of the skeleton from working, where none are made
// there on purpose.
func (e *emitter) noDevices() uint64 {
	if e.p.makesDevices() {
		return 0
	}
	return unix.MOUNT_ATTR_NODEV
}

// makesDevices: root makes the device nodes of /dev itself; in a user namespace
// none can be made, so the host's are bound.
func (p *Plan) makesDevices() bool {
	return p.host.Admin && p.whole() == nil
}

// attrs are the mount attributes that keep n's access.
func (n *node) attrs() uint64 {
	a := uint64(unix.MOUNT_ATTR_NOSUID)
	if !n.device {
		a |= unix.MOUNT_ATTR_NODEV
	}
	if n.access&profiles.Write == 0 || n.device {
		// A device can be written through a read-only mount, its mode not changed;
		// a socket can be connected to.
		a |= unix.MOUNT_ATTR_RDONLY
	}
	if n.access&profiles.Exec == 0 {
		a |= unix.MOUNT_ATTR_NOEXEC
	}
	return a
}

// bind attaches the host's file or directory at the same path. Mount and rule
// come from one descriptor.
func (e *emitter) bind(n *node) {
	src, tree := e.b.NewReg(), e.b.NewReg()
	skeleton := n.parent.skeleton()
	if skeleton {
		e.mkdirs(n.path, n.dir)
	}
	e.openPath(n.source(), n.dir, unix.AT_FDCWD, src)
	e.clone(n.path, src, tree)
	e.attributes(n.path+": "+attrNames(n.attrs()), tree, n.attrs(), 0, n.dir)
	e.moveOnto(n.path, tree, n.path, skeleton)
	e.grant(n, src)
	e.close(tree)
	e.close(src)
}

// self binds a directory or file of the run's tree onto itself: with less
// access for a carve-out, with the same for a pin, which cannot be moved away
// then (EBUSY).
func (e *emitter) self(n *node) {
	at, tree := e.b.NewReg(), e.b.NewReg()
	e.openPath(rel(n.path), n.dir, e.root, at)
	e.clone(n.path, at, tree)
	e.attributes(n.path+": "+attrNames(n.attrs()), tree, n.attrs(), 0, n.dir)
	e.moveOntoFD(n.path, tree, at)
	e.grant(n, at)
	e.close(tree)
	e.close(at)
}

// grant adds n's own Landlock rule, or the rules on its entries.
func (e *emitter) grant(n *node, r script.Reg) {
	allowed := rights(n.access, n.dir, e.p.abi)
	switch {
	case n.kind == nodeSocket:
		allowed = 0
		if e.p.abi >= 9 {
			allowed = ll.AccessFSResolveUnix
		}
	case n.enumerated:
		return
	case n.device && e.p.abi >= 5 && n.access&profiles.Write != 0:
		allowed |= ll.AccessFSIoctlDev
	}
	e.rule(n.path, r, allowed)
}

// entries adds the rules of enumerated directories: their entries one by one,
// and the directories themselves as lists.
func (e *emitter) entries() {
	add := func(p string, dir bool, allowed uint64) {
		r := e.b.NewReg()
		e.openPath(p, dir, unix.AT_FDCWD, r)
		e.rule(p, r, allowed)
		e.close(r)
	}
	for _, n := range e.p.layout.entries {
		add(n.path, n.dir, rights(n.access, n.dir, e.p.abi))
	}
	for _, d := range e.p.layout.lists {
		add(d, true, ll.AccessFSReadDir)
	}
}

// The masks are clones of one empty directory and one empty file that have no
// mode bits at all, and whose names are gone before the command starts.
const maskDir, maskFile = ".lockbox-closed", ".lockbox-closed-file"

// mask covers a closed path with an empty one that nobody can read.
func (e *emitter) mask(n *node) {
	name := maskFile
	if n.dir {
		name = maskDir
	}
	if !e.masks[name] {
		e.masks[name] = true
		if n.dir {
			e.call("mkdirat", name, unix.SYS_MKDIRAT, []any{e.scratch, name, 0})
		} else {
			e.call("mknodat", name, unix.SYS_MKNODAT, []any{e.scratch, name, unix.S_IFREG, 0})
		}
	}
	from, tree := e.b.NewReg(), e.b.NewReg()
	e.openPath(name, n.dir, e.scratch, from)
	e.clone("mask of "+n.path, from, tree)
	e.attributes("mask of "+n.path+": ro", tree, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, 0, false)
	e.cover(n, tree)
	e.close(tree)
	e.close(from)
}

// openMask covers a closed directory that has open entries below: it can be
// passed through, not listed.
func (e *emitter) openMask(n *node) {
	m := e.b.NewReg()
	e.newFS("tmpfs", [][2]string{{"mode", "0111"}, {"size", "1m"}}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, m)
	e.cover(n, m)
	e.made[n.path], e.closed[n.path] = true, true
	e.seals = append(e.seals, m)
}

// cover attaches a tree over a path of the run's tree.
func (e *emitter) cover(n *node, tree script.Reg) {
	at := e.b.NewReg()
	e.openName(rel(n.path), n.dir, e.root, at)
	e.moveOntoFD("cover "+n.path, tree, at)
	e.close(at)
}

// tmpNames are the private directories' names in the scratch tree, or below
// Options.TmpDir.
var tmpNames = map[string]string{"/tmp": "tmp", "/var/tmp": "vartmp", "/dev/shm": "shm"}

// TmpNames lists the directories that Options.TmpDir must hold, each with mode 1777.
func TmpNames() []string { return []string{"tmp", "vartmp"} }

// privateDir attaches a directory of the run's own, writable.
func (e *emitter) privateDir(n *node) {
	src, tree := e.b.NewReg(), e.b.NewReg()
	name := tmpNames[n.path]
	skeleton := n.parent.skeleton()
	if skeleton {
		e.mkdirs(path.Dir(n.path), true)
		e.call("mkdirat", n.path, unix.SYS_MKDIRAT, []any{e.root, rel(n.path), 0o1777})
	}
	switch {
	case e.p.opts.TmpDir != "" && n.path != "/dev/shm": // shared memory belongs in memory
		e.openPath(path.Join(e.p.opts.TmpDir, name), true, unix.AT_FDCWD, src)
	case skeleton:
		e.openPath(rel(n.path), true, e.root, src)
	default:
		e.call("mkdirat", name, unix.SYS_MKDIRAT, []any{e.scratch, name, 0o1777})
		e.openPath(name, true, e.scratch, src)
	}
	e.clone(n.path, src, tree)
	e.attributes(n.path+": "+attrNames(n.attrs()), tree, n.attrs(), 0, false)
	e.moveOnto(n.path, tree, n.path, skeleton)
	e.made[n.path] = true // below a granted "/" too: rules may lie in it
	e.rule(n.path, src, rights(n.access, true, e.p.abi))
	e.close(tree)
	e.close(src)
}

// dev makes /dev: a directory of the skeleton, or a tmpfs over the host's.
func (e *emitter) dev(n *node) {
	if n.parent.skeleton() {
		e.mkdirs("/dev", true)
		if e.p.makesDevices() {
			e.deviceRule()
		} else if e.p.opts.Terminal != "" {
			r := e.b.NewReg()
			e.openPath("dev", true, e.root, r)
			e.rule("/dev", r, ll.AccessFSReadDir)
			e.close(r)
		}
		return
	}
	m := e.b.NewReg()
	e.newFS("tmpfs", [][2]string{{"mode", "0755"}, {"size", "64k"}}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, m)
	e.moveOnto("/dev", m, "/dev", false)
	e.made["/dev"] = true
	e.seals = append(e.seals, m)
}

// deviceRule is one Landlock rule for every device node that makeDevice makes:
// reading and writing files in /dev, neither listing nor making any.
func (e *emitter) deviceRule() {
	r := e.b.NewReg()
	e.openPath("dev", true, e.root, r)
	allowed := uint64(ll.AccessFSReadFile | ll.AccessFSWriteFile)
	if e.p.opts.Terminal != "" {
		allowed |= ll.AccessFSReadDir // ttyname(3) looks for the terminal's node
	}
	if e.p.abi >= 5 {
		allowed |= ll.AccessFSIoctlDev
	}
	e.rule("/dev", r, allowed)
	e.close(r)
}

// makeDevice makes a device node in the skeleton, which is read-only later: its
// mode cannot be changed, and it is not the host's node.
func (e *emitter) makeDevice(n *node) {
	d := deviceNumbers[n.path]
	e.call("mknodat", n.path, unix.SYS_MKNODAT, []any{e.root, rel(n.path), unix.S_IFCHR | 0o666, int(unix.Mkdev(d[0], d[1]))})
}

// deviceNumbers are the fixed numbers of Linux (admin-guide/devices.txt).
var deviceNumbers = map[string][2]uint32{
	"/dev/null": {1, 3}, "/dev/zero": {1, 5}, "/dev/full": {1, 7}, "/dev/random": {1, 8}, "/dev/urandom": {1, 9}, "/dev/tty": {5, 0},
}

func (e *emitter) proc(n *node) {
	if n.parent.skeleton() {
		e.mkdirs("/proc", true)
	}
	var options [][2]string
	if !e.p.pidNS {
		options = [][2]string{{"hidepid", "ptraceable"}} // since Linux 5.8
	}
	m := e.b.NewReg()
	e.newFS("proc", options, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, m)
	e.moveOnto("/proc", m, "/proc", n.parent.skeleton())
	e.rule("/proc", m, rights(profiles.Read, true, e.p.abi))
	e.close(m)
}

func (e *emitter) pts(n *node) {
	e.mkdirs("/dev/pts", true)
	m := e.b.NewReg()
	e.newFS("devpts", [][2]string{{"ptmxmode", "0666"}, {"mode", "0620"}}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, m)
	e.moveOnto("/dev/pts", m, "/dev/pts", true)
	allowed := rights(profiles.Read|profiles.Write, true, e.p.abi)
	if e.p.abi >= 5 {
		allowed |= ll.AccessFSIoctlDev
	}
	e.rule("/dev/pts", m, allowed)
	e.close(m)
}

// hide covers a host directory below a granted "/" with an empty skeleton.
func (e *emitter) hide(n *node) {
	m := e.b.NewReg()
	e.newFS("tmpfs", [][2]string{{"mode", "0755"}, {"size", "1m"}}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, m)
	e.moveOnto(n.path, m, n.path, false)
	e.made[n.path] = true
	e.seals = append(e.seals, m)
}

// hostsFile makes /etc/hosts with the names that were resolved at the start: in
// the skeleton, which is read-only later, or bound over the host's.
func (e *emitter) hostsFile(n *node) {
	f, src := e.b.NewReg(), e.b.NewReg()
	data := e.p.opts.Hosts
	at, name := e.scratch, "hosts"
	skeleton := n.parent.skeleton()
	if skeleton {
		e.mkdirs(path.Dir(n.path), true)
		e.made[n.path] = true
		at, name = e.root, rel(n.path)
	}
	e.call("openat", name, unix.SYS_OPENAT, []any{at, name, unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_CLOEXEC, 0o444}, script.Out(f))
	if len(data) > 0 {
		e.call("write", "pinned hosts", unix.SYS_WRITE, []any{f, data, len(data)}, script.WantResult(uintptr(len(data))))
	}
	e.close(f)
	e.openPath(name, false, at, src)
	if !skeleton {
		tree := e.b.NewReg()
		e.clone("pinned hosts", src, tree)
		e.attributes(n.path+": "+attrNames(n.attrs()), tree, n.attrs(), 0, false)
		e.moveOnto(n.path, tree, n.path, false)
		e.close(tree)
	}
	e.rule(n.path, src, rights(profiles.Read, false, e.p.abi))
	e.close(src)
}

// enterRoot makes the new tree the root and drops the old one (pivot_root(2):
// with "." twice the old root ends up above the new one, from where it is
// detached).
func (e *emitter) enterRoot() {
	e.call("fchdir", "new root", unix.SYS_FCHDIR, []any{e.root})
	e.call("pivot_root", "new root", unix.SYS_PIVOT_ROOT, []any{".", "."})
	e.call("fchdir", "old root", unix.SYS_FCHDIR, []any{e.oldRoot})
	e.call("umount2", "old root, detached", unix.SYS_UMOUNT2, []any{".", unix.MNT_DETACH})
	e.call("chdir", "/", unix.SYS_CHDIR, []any{"/"})
}

// seal makes the skeleton read-only once everything is attached.
func (e *emitter) seal() {
	for _, name := range []string{maskDir, maskFile} {
		flags := 0
		if name == maskDir {
			flags = unix.AT_REMOVEDIR
		}
		if e.masks[name] {
			e.call("unlinkat", name, unix.SYS_UNLINKAT, []any{e.scratch, name, flags})
		}
	}
	for _, r := range e.seals {
		e.attributes("skeleton: ro", r, unix.MOUNT_ATTR_RDONLY, 0, false)
	}
}

// link makes a symlink of the skeleton.
func (e *emitter) link(k Link) {
	e.mkdirs(path.Dir(k.At), true)
	e.call("symlinkat", k.At+" → "+k.Target, unix.SYS_SYMLINKAT, []any{k.Target, e.root, rel(k.At)})
}

// attrNames prints mount attributes.
func attrNames(a uint64) string {
	var out []string
	for _, n := range []struct {
		flag uint64
		name string
	}{{unix.MOUNT_ATTR_RDONLY, "ro"}, {unix.MOUNT_ATTR_NOSUID, "nosuid"}, {unix.MOUNT_ATTR_NODEV, "nodev"}, {unix.MOUNT_ATTR_NOEXEC, "noexec"}} {
		if a&n.flag != 0 {
			out = append(out, n.name)
		}
	}
	return strings.Join(out, ",")
}

// rightNames prints Landlock rights.
func rightNames(r uint64) string {
	names := []string{"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir",
		"make_reg", "make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev", "resolve_unix"}
	var out []string
	for i, n := range names {
		if r&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, ",")
}

// drop gives every privilege away.
func (e *emitter) drop() {
	h := e.p.host
	if h.Admin {
		e.call("setgroups", "none", unix.SYS_SETGROUPS, []any{0, 0})
	}
	e.call("prctl", "no ambient capabilities", unix.SYS_PRCTL, []any{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0})
	if h.Admin || e.p.userNS {
		for c := 0; c <= h.LastCap; c++ {
			e.call("prctl", "bounding set without one capability", unix.SYS_PRCTL, []any{unix.PR_CAPBSET_DROP, c, 0, 0, 0})
		}
	}
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{}
	e.call("capset", "no capabilities", unix.SYS_CAPSET, []any{unsafe.Pointer(hdr), unsafe.Pointer(data)})
	if h.Admin || e.p.userNS {
		one := &[2]unix.CapUserData{{Effective: 1, Permitted: 1}}
		e.call("capset", "canary: a capability cannot be had again", unix.SYS_CAPSET, []any{unsafe.Pointer(hdr), unsafe.Pointer(one)}, script.WantErrno(syscall.EPERM))
	}
}

// limit sets a resource limit of the calling process (prlimit64).
func (e *emitter) limit(name string, resource int, cur, max uint64) {
	v := &unix.Rlimit{Cur: cur, Max: max}
	e.call("prlimit64", fmt.Sprintf("%s %d", name, max), unix.SYS_PRLIMIT64, []any{0, resource, unsafe.Pointer(v), 0})
}

// restrict closes files and scopes for good.
func (e *emitter) restrict() {
	e.call("prctl", "no_new_privs", unix.SYS_PRCTL, []any{unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0})
	e.call("landlock_restrict_self", "domain of this run", unix.SYS_LANDLOCK_RESTRICT_SELF, []any{e.ruleset, 0})
}

func (e *emitter) seccomp() {
	e.call("seccomp", fmt.Sprintf("filter of %d instructions", e.filter.Len), unix.SYS_SECCOMP,
		[]any{unix.SECCOMP_SET_MODE_FILTER, 0, unsafe.Pointer(e.filter)})
}
