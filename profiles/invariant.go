package profiles

import "slices"

// Caller is who starts a run.
type Caller uint8

const (
	// Assistant is an assistant's own spawn. It is the zero value.
	Assistant Caller = iota
	// Door is a run that the door starts for a client: a skill call.
	Door
	// Terminal is a person's own command line.
	Terminal
)

// Strength says in which runs an invariant holds.
type Strength uint8

const (
	// EveryRun: closed, and nothing opens it.
	EveryRun Strength = iota
	// DoorRun: closed in every run that the door starts; a terminal run opens
	// of it only what its profile names one by one.
	DoorRun
	// Settings: hooks and settings of an assistant; closed for skill calls and
	// read-only otherwise.
	Settings
)

// Invariant is a path that is closed after everything else has been said.
type Invariant struct {
	ID       string
	Path     string // may start with ~ or $NAME
	File     bool   // else a directory
	Strength Strength
	// Plant: to create it would do harm as well, so under a writable directory
	// its absence is an error at the start of a run.
	Plant bool
}

// invariants of Linux and of both platforms.
var invariants = []Invariant{
	{"lockbox", "/etc/lockbox", false, EveryRun, true},
	{"lockbox", "/var/lib/lockbox", false, EveryRun, true},
	{"lockbox", "/run/lockbox", false, EveryRun, true},
	{"lockbox", "$XDG_CONFIG_HOME/lockbox", false, EveryRun, true},
	{"lockbox", "$XDG_STATE_HOME/lockbox", false, EveryRun, true},
	{"lockbox", "$XDG_RUNTIME_DIR/lockbox", false, EveryRun, true},
	{"lockbox", "~/.config/lockbox", false, EveryRun, true},
	{"lockbox", "~/.local/state/lockbox", false, EveryRun, true},
	{"bpffs", "/sys/fs/bpf", false, EveryRun, false},
	{"cgroupfs", "/sys/fs/cgroup", false, EveryRun, false},

	{"ssh", "~/.ssh", false, DoorRun, false},
	{"ssh", "/etc/ssh", false, DoorRun, false},
	{"gnupg", "~/.gnupg", false, DoorRun, false},
	{"gnupg", "$XDG_RUNTIME_DIR/gnupg", false, DoorRun, false},
	{"keyring", "~/.local/share/keyrings", false, DoorRun, false},
	{"keyring", "$XDG_DATA_HOME/keyrings", false, DoorRun, false},
	{"keyring", "~/.local/share/kwalletd", false, DoorRun, false},
	{"keyring", "$XDG_RUNTIME_DIR/keyring", false, DoorRun, false},
	{"keyring", "$XDG_RUNTIME_DIR/bus", true, DoorRun, false},
	{"pass", "~/.password-store", false, DoorRun, false},
	{"aws", "~/.aws", false, DoorRun, false},
	{"azure", "~/.azure", false, DoorRun, false},
	{"gcloud", "~/.config/gcloud", false, DoorRun, false},
	{"gcloud", "$XDG_CONFIG_HOME/gcloud", false, DoorRun, false},
	{"kube", "~/.kube", false, DoorRun, false},
	{"docker", "~/.docker", false, DoorRun, false},
	{"docker", "/run/docker.sock", true, DoorRun, false},
	{"docker", "/run/containerd", false, DoorRun, false},
	{"docker", "/run/podman", false, DoorRun, false},
	{"docker", "$XDG_RUNTIME_DIR/docker.sock", true, DoorRun, false},
	{"docker", "$XDG_RUNTIME_DIR/podman", false, DoorRun, false},
	{"netrc", "~/.netrc", true, DoorRun, false},
	{"git-credentials", "~/.git-credentials", true, DoorRun, false},
	{"git-credentials", "$XDG_CONFIG_HOME/git/credentials", true, DoorRun, false},
	{"gh", "$XDG_CONFIG_HOME/gh", false, DoorRun, false},
	{"npm", "~/.npmrc", true, DoorRun, false},
	{"pypi", "~/.pypirc", true, DoorRun, false},
	{"cargo", "~/.cargo/credentials.toml", true, DoorRun, false},
	{"hashicorp-vault", "~/.vault-token", true, DoorRun, false},
	{"terraform", "~/.terraform.d", false, DoorRun, false},
	{"browser", "~/.mozilla", false, DoorRun, false},
	{"browser", "$XDG_CONFIG_HOME/google-chrome", false, DoorRun, false},
	{"browser", "$XDG_CONFIG_HOME/chromium", false, DoorRun, false},
	{"services", "~/.config/systemd", false, DoorRun, true},
	{"services", "$XDG_CONFIG_HOME/systemd", false, DoorRun, true},
	{"services", "~/.local/share/systemd", false, DoorRun, true},
	{"services", "$XDG_RUNTIME_DIR/systemd", false, DoorRun, false},
	{"services", "/run/systemd/private", true, DoorRun, false},
	{"services", "/etc/systemd", false, DoorRun, true},
	{"autostart", "~/.config/autostart", false, DoorRun, true},
	{"autostart", "$XDG_CONFIG_HOME/autostart", false, DoorRun, true},
	{"cron", "/var/spool/cron", false, DoorRun, true},
	{"cron", "/etc/crontab", true, DoorRun, true},
	{"cron", "/etc/cron.d", false, DoorRun, true},

	{"hooks", "~/.claude/hooks", false, Settings, true},
	{"hooks", "$WORKSPACE/.claude/hooks", false, Settings, false},
	{"settings", "~/.claude/settings.json", true, Settings, true},
	{"settings", "~/.claude/settings.local.json", true, Settings, true},
	{"settings", "$WORKSPACE/.claude/settings.json", true, Settings, false},
	{"settings", "$WORKSPACE/.claude/settings.local.json", true, Settings, false},
	{"settings", "~/.codex/config.toml", true, Settings, true},
	{"hooks", "~/.codex/hooks.json", true, Settings, true},
}

// darwinInvariants are added on macOS.
var darwinInvariants = []Invariant{
	{"keychain", "~/Library/Keychains", false, DoorRun, false},
	{"keychain", "/Library/Keychains", false, DoorRun, false},
	{"services", "~/Library/LaunchAgents", false, DoorRun, true},
	{"services", "/Library/LaunchAgents", false, DoorRun, true},
	{"services", "/Library/LaunchDaemons", false, DoorRun, true},
}

// Invariants lists what is closed for ex, paths expanded, one row a path.
// A path that starts with a variable without a value is left out.
func Invariants(ex Expand) []Invariant {
	var own []Invariant
	if ex.Platform == "darwin" {
		own = slices.Clone(darwinInvariants)
	}
	for _, dir := range slices.Concat(ex.StateDirs, ex.ConfigDirs) {
		own = append(own, Invariant{"lockbox", dir, false, EveryRun, true})
	}
	n := len(invariants) + len(own)
	out, at := make([]Invariant, 0, n), make(map[string]int, n)
	for i := range n {
		var r Invariant
		if i < len(invariants) {
			r = invariants[i]
		} else {
			r = own[i-len(invariants)]
		}
		p, err := ex.Path(r.Path)
		if err != nil {
			continue
		}
		r.ID, r.Path = "invariant:"+r.ID, p
		switch i, ok := at[p]; {
		case !ok:
			at[p] = len(out)
			out = append(out, r)
		case r.Strength < out[i].Strength:
			out[i] = r
		}
	}
	return out
}
