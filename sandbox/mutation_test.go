package sandbox

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/sandbox/script"
)

// silent are the system calls whose absence no later step can notice, each with
// the reason why that is no hole or what else shows the call. Everything else,
// left out, must end the start. Matched against "call what".
var silent = []struct{ step, why string }{
	{`^close `, "tidying: close_range marks what is left"},
	{`^unlinkat `, "tidying: the empty file behind a mask keeps no name"},
	{`^umask `, "only the skeleton's modes; TestSkeletonAndUmask"},
	{`^setsid `, "TestSessionAndTerminal"},
	{`^prctl parent death signal`, "TestDescendantsDieWithTheSupervisor"},
	{`^read the supervisor lives`, "closes a gap of microseconds before the line above"},
	{`^openat /proc/self/setgroups|^write /proc/self/setgroups`, "root needs none; a user's gid_map is refused without it"},
	{`^mount / private`, "a copied mount namespace of another user namespace is a slave already; as root TestLeaks shows a mount that came back"},
	{`^mount_setattr `, "TestMetadata and TestKernelAnswersAsDecide see a mount with too much; the root's own has a canary"},
	{`^symlinkat `, "convenience"},
	{`^(mkdirat|mknodat|fchmodat|open_tree|move_mount|openat2|openat|write|fsopen|fsconfig|fsmount) `, "less is visible, or a later step fails; what must be covered: TestCovers"},
	{`^landlock_add_rule `, "a rule only grants"},
	{`^umount2 old root|^fchdir old root|^chdir /`, "TestOldRootIsGone"},
	{`^(socket|sendto|recvfrom) .*(rtnetlink|RTM_NEWLINK|acknowledgement)`, "loopback only grants"},
	{`^chdir `, "where the command starts"},
	{`^dup3 |^fcntl copy of`, "which descriptors; TestStandardDescriptors"},
	{`^prlimit64 `, "TestResourceLimits"},
	{`^setgroups `, "TestNoPrivileges"},
	{`^prctl (no ambient|bounding set)`, "TestNoPrivileges: each of three ways alone is enough against the others"},
	{`canary`, "the step that notices"},
	{`^(socket) (UDP|AF_UNIX)$`, "belongs to a canary; left out, the canary fails or tries stdin"},
	{`^fcntl the status pipe`, "init cannot report; TestExitStatus"},
}

// must are the protective calls that have to be noticed at once, so that the
// table above cannot grow over them.
var must = []string{
	`^landlock_restrict_self `, `^seccomp filter`, `^capset no capabilities`, `^close_range `, `^pivot_root `,
	`^mount_setattr skeleton: ro`, `^prctl no_new_privs`,
}

// quietly is a command that prints nothing, wherever its output went.
func quietly() Options {
	return Options{Path: prober, Argv: []string{prober, "0"}, Env: []string{roleVar + "=exit"}}
}

// K-018: a start from whose script any one system call is missing fails, or the
// call is one that the table above explains. This is what the canaries are for:
// no layer is ever silently absent.
func TestEveryStepIsMissed(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		dir := tree(t, "w/hooks/x", "r/closed/x", "r/open")
		profile := grants("rw "+dir+"/w", "-r "+dir+"/w/hooks", "r "+dir+"/r", "-none "+dir+"/r/closed")
		type step struct{ call, what string }
		var steps []step
		seen := map[step]bool{}
		record := &setup{profile: profile, plan: func(p *Plan) {
			p.without = func(call, what string) bool {
				if s := (step{call, what}); !seen[s] {
					seen[s] = true
					steps = append(steps, s)
				}
				return false
			}
		}}
		if o, err := start(t, record); err != nil {
			t.Fatalf("with every step: %v", err)
		} else if o.exit.ExecErrno != 0 {
			t.Fatalf("with every step: %+v", o.exit)
		}
		noticed, quiet := 0, map[string]int{}
		for i, s := range steps {
			if guest() && i%3 != os.Geteuid()%3 {
				continue // the host does all
			}
			text := s.call + " " + s.what
			_, err := start(t, &setup{profile: profile, options: quietly(), start: StartOptions{Deadline: time.Second}, plan: func(p *Plan) {
				p.without = func(call, what string) bool { return call == s.call && what == s.what }
			}})
			if err != nil {
				noticed++ // a StepError, the start's deadline, or the loopback's answer
				continue
			}
			for _, m := range must {
				if regexp.MustCompile(m).MatchString(text) {
					t.Errorf("without %s: the start succeeded", text)
				}
			}
			why := ""
			for _, k := range silent {
				if regexp.MustCompile(k.step).MatchString(text) {
					why = k.why
					break
				}
			}
			if why == "" {
				t.Errorf("without %s: the start succeeded, and nothing explains it", text)
			}
			quiet[s.call]++
		}
		t.Logf("%d steps: %d noticed when missing; not noticed, by call: %v", len(steps), noticed, quiet)
	})
}

// K-018: a layer that holds less than it should is found by its canary, and the
// error names it.
func TestWeakenedLayersAreFound(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		h, err := Probe()
		if err != nil {
			t.Fatal(err)
		}
		skip := func(pattern string) func(*Plan) {
			re := regexp.MustCompile(pattern)
			return func(p *Plan) { p.without = func(call, what string) bool { return re.MatchString(call + " " + what) } }
		}
		rows := []struct {
			name  string
			weak  func(*Plan)
			step  string // of the canary
			errno bool   // denied, but by something else
		}{
			{"no Landlock", skip(`^landlock_restrict_self`), `canary .*a node that no rule grants`, true},
			{"no filter", skip(`^seccomp `), `canary: AF_VSOCK`, true},
			{"no close_range", skip(`^close_range`), `canary: the copy closes on exec`, false},
			{"skeleton writable", skip(`^mount_setattr skeleton: ro`), `canary: mode of /`, false},
			{"no network namespace", func(p *Plan) { p.namespaces &^= unix.CLONE_NEWNET; p.without = func(c, w string) bool { return false } }, `loopback|RTM|the port that the caller holds`, true},
			{"capabilities kept", skip(`^capset no capabilities|^prctl bounding set`), `canary: a capability cannot be had again`, false},
		}
		if h.LandlockABI < 6 {
			rows = append(rows, struct {
				name  string
				weak  func(*Plan)
				step  string
				errno bool
			}{"no pid namespace", func(p *Plan) { p.namespaces &^= unix.CLONE_NEWPID }, `proc|canary: signal 0`, true})
		}
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				_, err := start(t, &setup{profile: grants(), plan: r.weak})
				var se *script.StepError
				if !errors.As(err, &se) {
					t.Fatalf("%v, want a StepError", err)
				}
				if text := se.Step.Call + " " + se.Step.What; !regexp.MustCompile(r.step).MatchString(text) {
					t.Errorf("found by %q (%v), want the step %s", text, se, r.step)
				}
			})
		}
	})
}

// A start that is ended before any of its steps leaves no process, descriptor or
// mount (TestMain looks), and says so.
func TestEndedAtEachStep(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		dir := tree(t, "w/hooks/x")
		n := 0
		stride := 1
		if guest() {
			stride = 5 // the host does all
		}
		for i := 1; ; i += stride {
			s := &setup{profile: grants("rw "+dir+"/w", "-r "+dir+"/w/hooks"), start: StartOptions{StopAt: i}}
			o, err := start(t, s)
			if err == nil {
				if o.exit.ExecErrno != 0 {
					t.Fatalf("stop at %d: %+v", i, o.exit)
				}
				n = i - 1
				break
			}
			var se *script.StepError
			if !errors.As(err, &se) || se.Index != i-1 || se.Errno != 0 {
				t.Fatalf("stop at %d: %v", i, err)
			}
		}
		if n < 40 {
			t.Errorf("only %d steps", n)
		}
		if left := processesOf(prober); len(left) > 0 {
			t.Errorf("processes left: %v", left)
		}
		t.Log(fmt.Sprint(n, " steps"))
	})
}
