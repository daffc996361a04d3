package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// env is the environment of a caller, with a home of its own. Root's state folder stays its own: the pinned programs belong to it.
func (e *bench) env(uid int) ([]string, error) {
	home := fmt.Sprintf("%s/home/uid%d", e.dir, uid)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		if err := os.Chown(home, uid, uid); err != nil {
			return nil, err
		}
	}
	return []string{"PATH=/usr/bin:/bin", "HOME=" + home}, nil
}

func who(uid int) string {
	if uid == 0 {
		return "root"
	}
	return "an ordinary user"
}

// bwrapFlags are the strictest simple profile: the same promises as the preset base, as far as bwrap has them.
var bwrapFlags = []string{"--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr",
	"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}

// starts compares the start and end of /bin/true.
func (e *bench) starts(w io.Writer, uid, rounds int) error {
	fmt.Fprintf(w, "\n## Start of /bin/true, as %s (%d rounds)\n\n", who(uid), rounds)
	env, err := e.env(uid)
	if err != nil {
		return err
	}
	argvs := map[string][]string{}
	names := []string{"plain", "lockbox run -p base"}
	argvs["plain"] = []string{"/bin/true"}
	argvs["lockbox run -p base"] = []string{e.lockbox, "run", "-p", "base", "--", "/bin/true"}
	if path, err := exec.LookPath("bwrap"); err == nil {
		names = append(names, "bwrap")
		argvs["bwrap"] = append(append([]string{path}, bwrapFlags...), "/bin/true")
	} else {
		fmt.Fprintf(w, "bwrap is not installed (apt-get install bubblewrap).\n\n")
	}
	if path, err := e.landstrip(); err == nil {
		names = append(names, "landstrip")
		argvs["landstrip"] = []string{path, "run", "-p", e.dir + "/landstrip.json", "--", "/bin/true"}
	} else {
		fmt.Fprintf(w, "landstrip is not measured: %v.\n\n", err)
	}
	var cs []*candidate
	for _, name := range names {
		cs = append(cs, &candidate{name: name, once: func() (time.Duration, error) { return spawn(argvs[name], uid, env, "/", nil) }})
	}
	if err := interleave(rounds, cs); err != nil {
		return err
	}
	table(w, time.Millisecond, "ms", cs)
	return nil
}

const landstripPackage = "@landstrip/landstrip-linux-x64@0.19.2"

// landstrip installs the platform package to the bench's folder, once.
func (e *bench) landstrip() (string, error) {
	const policy = `{"filesystem":{"allowWrite":[],"denyRead":["/root","/home"]},"network":{"allowNetwork":false}}`
	prefix := e.dir + "/npm"
	if _, err := os.Stat(prefix); err != nil {
		npm, err := exec.LookPath("npm")
		if err != nil {
			return "", fmt.Errorf("npm is not installed")
		}
		if err := os.Mkdir(prefix, 0o755); err != nil {
			return "", err
		}
		cmd := exec.Command(npm, "install", "--prefix", prefix, "--no-audit", "--no-fund", "--ignore-scripts", landstripPackage)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("npm does not give %s: %w: %.200s", landstripPackage, err, out)
		}
		if err := os.WriteFile(e.dir+"/landstrip.json", []byte(policy), 0o644); err != nil {
			return "", err
		}
	}
	found := ""
	err := filepath.WalkDir(prefix, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() == "landstrip" {
			if st, err := d.Info(); err == nil && st.Mode()&0o111 != 0 && st.Mode().IsRegular() {
				found = p
			}
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if found == "" {
		return "", fmt.Errorf("%s has no program", landstripPackage)
	}
	return found, nil
}
