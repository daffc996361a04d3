package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"lockbox/profiles"
)

// Feature is one line of `lockbox doctor`.
type Feature struct {
	Feature string `json:"feature"`
	OK      bool   `json:"ok"`
	By      string `json:"by"`
	Proof   string `json:"proof"` // what was done, and what the kernel answered
	Fix     string `json:"fix"`   // where it is not ok
}

// proofs says what the canary of each layer tried.
var proofs = map[string]string{
	"files":     "a child made a node that no rule grants: EACCES; changed the mode of /: EROFS",
	"syscalls":  "a child asked for an AF_VSOCK socket: EPERM",
	"egress":    "a child connected to 192.0.2.1 in its own namespace: ENETUNREACH",
	"unix":      "a child connected to a path socket and an abstract socket outside: ENOENT, EPERM",
	"processes": "a child sent signal 0 to this process: ESRCH or EPERM",
	"fds":       "a child looked at a descriptor above 2: it closes on exec",
}

// Doctor proves each layer by starting a child under the strictest plan and
// letting it try. canaryPath is a bound socket outside, or "".
func Doctor(canaryPath string) ([]Feature, error) {
	h, err := Probe()
	if err != nil {
		return nil, err
	}
	out := []Feature{{Feature: "kernel", OK: h.atLeast(5, 13), By: h.Kernel, Proof: "uname", Fix: "use Linux 5.13 or newer; 6.1 and newer are tested"}}
	s, err := profiles.Seal(&profiles.Profile{}, profiles.Expand{}, profiles.Terminal)
	if err != nil {
		return nil, err
	}
	layers, err := prove(s, h, canaryPath)
	var lacks *UnsupportedError
	if errors.As(err, &lacks) {
		return append(out, Feature{Feature: lacks.Feature, Proof: "needs " + lacks.Need + "; found: " + lacks.Have, Fix: fix(lacks, h)}), nil
	}
	if err != nil {
		return append(out, Feature{Feature: "sandbox", Proof: err.Error(), Fix: "report this: a layer that should hold on this kernel does not"}), nil
	}
	for _, l := range layers {
		if proofs[l.Layer] == "" {
			continue
		}
		f := Feature{Feature: l.Layer, OK: l.Applied && l.Verified, By: l.By, Proof: proofs[l.Layer]}
		if !f.OK {
			f.Proof, f.Fix = "not tried: "+l.Note, "make the run directory writable, so that there is a socket to try"
		}
		out = append(out, f)
	}
	out = append(out, inPlace(h))
	if out[0].OK {
		out[0].Fix = ""
	}
	return out, nil
}

// inPlace says whether a run without limits needs no supervisor. Either answer
// is fine, so the line is always ok.
func inPlace(h *Host) Feature {
	f := Feature{Feature: "exec in place", OK: true, By: fmt.Sprintf("landlock:%d", h.LandlockABI), Proof: "root, and Landlock has scopes"}
	switch {
	case !h.Admin:
		f.By, f.Proof = "supervised", "an ordinary user needs a user namespace, so a parent waits"
	case h.LandlockABI < 6:
		f.By, f.Proof = "supervised", "Landlock has no scopes before Linux 6.12, so runs get a pid namespace"
	}
	return f
}

// prove starts a child that ends in an execve of nothing: every step and canary
// before it has then held.
func prove(s *profiles.Sealed, h *Host, canaryPath string) ([]Layer, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p, err := Compile(s, h, Options{Argv: []string{"none"}, Path: "/none", Dir: "/", Attended: true})
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	proc, err := p.Start(StartOptions{Stdin: null, Stdout: null, Stderr: null, CgroupFD: -1, CanaryPath: canaryPath})
	if err != nil {
		return nil, err
	}
	if _, err := proc.Wait(); err != nil {
		return nil, err
	}
	return p.Layers, nil
}

// fix names the environment that takes a feature away, with the change that helps.
func fix(e *UnsupportedError, h *Host) string {
	if h.Admin || e.Need == "" || h.UserNS == "" {
		return e.Hint
	}
	switch h.UserNS {
	case "kernel.apparmor_restrict_unprivileged_userns is 1":
		return "Ubuntu's AppArmor rule: as root write /etc/apparmor.d/lockbox with\n" + AppArmorProfile + "and run: apparmor_parser -r /etc/apparmor.d/lockbox"
	case "kernel.unprivileged_userns_clone is 0":
		return "as root: sysctl -w kernel.unprivileged_userns_clone=1"
	case "user.max_user_namespaces is 0":
		return "as root: sysctl -w user.max_user_namespaces=10000 (in Docker: run as root inside, or with --security-opt seccomp=unconfined)"
	}
	return e.Hint
}

// AppArmorProfile lets lockbox, wherever it is installed by a package, make user
// namespaces on hosts that forbid them to unconfined programs (Ubuntu 23.10 and
// newer).
const AppArmorProfile = `abi <abi/4.0>,
include <tunables/global>
profile lockbox /usr{,/local}/bin/lockbox{,-runner} flags=(unconfined) {
  userns,
}
`
