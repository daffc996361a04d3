// Code generated from presets/*.toml by go generate. DO NOT EDIT.

package profiles

// prebuilt is the parsed document of an embedded preset, made anew for each call; nil
// for any other name.
func prebuilt(name string) *Document {
	switch name {
	case "base":
		return &Document{Source: "preset:base", Name: "base", Files: []FileRule{
			{Path: "/usr", Access: 5},
			{Path: "/bin", Access: 5, Optional: true},
			{Path: "/sbin", Access: 5, Optional: true},
			{Path: "/lib", Access: 5, Optional: true},
			{Path: "/lib32", Access: 5, Optional: true},
			{Path: "/lib64", Access: 5, Optional: true},
			{Path: "/libx32", Access: 5, Optional: true},
			{Path: "/nix/store", Access: 5, Optional: true},
			{Path: "/gnu/store", Access: 5, Optional: true},
			{Path: "/run/current-system", Access: 5, Optional: true},
			{Path: "/etc/ld.so.cache", Access: 1, Optional: true},
			{Path: "/etc/ld-musl-x86_64.path", Access: 1, Optional: true},
			{Path: "/etc/ld-musl-aarch64.path", Access: 1, Optional: true},
			{Path: "/etc/nsswitch.conf", Access: 1, Optional: true},
			{Path: "/etc/passwd", Access: 1, Optional: true},
			{Path: "/etc/group", Access: 1, Optional: true},
			{Path: "/etc/hosts", Access: 1, Optional: true},
			{Path: "/etc/resolv.conf", Access: 1, Optional: true},
			{Path: "/etc/gai.conf", Access: 1, Optional: true},
			{Path: "/etc/services", Access: 1, Optional: true},
			{Path: "/etc/protocols", Access: 1, Optional: true},
			{Path: "/etc/localtime", Access: 1, Optional: true},
			{Path: "/etc/timezone", Access: 1, Optional: true},
			{Path: "/etc/locale.conf", Access: 1, Optional: true},
			{Path: "/etc/os-release", Access: 1, Optional: true},
			{Path: "/etc/lsb-release", Access: 1, Optional: true},
			{Path: "/etc/mime.types", Access: 1, Optional: true},
			{Path: "/etc/ssl/certs", Access: 1, Optional: true},
			{Path: "/etc/ssl/cert.pem", Access: 1, Optional: true},
			{Path: "/etc/ssl/openssl.cnf", Access: 1, Optional: true},
			{Path: "/etc/pki/tls", Access: 1, Optional: true},
			{Path: "/etc/pki/ca-trust", Access: 1, Optional: true},
			{Path: "/etc/crypto-policies", Access: 1, Optional: true},
			{Path: "/etc/ssl/private", Optional: true},
			{Path: "/etc/pki/tls/private", Optional: true},
			{Path: "/etc/alternatives", Access: 5, Optional: true},
		}, Env: Env{Pass: []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "TERM", "COLORTERM", "NO_COLOR", "TZ"}}, Process: ProcessRules{Syscalls: new(Syscalls{Mode: "default"}), TTY: new(false)}}
	case "git":
		return &Document{Source: "preset:git", Name: "git", Extends: []string{"base"}, Files: []FileRule{
			{Path: "$WORKSPACE", Access: 3},
			{Path: "~/.gitconfig", Access: 1, Optional: true},
			{Path: "$XDG_CONFIG_HOME/git/config", Access: 1, Optional: true},
			{Path: "$XDG_CONFIG_HOME/git/ignore", Access: 1, Optional: true},
			{Path: "$XDG_CONFIG_HOME/git/attributes", Access: 1, Optional: true},
			{Path: "/etc/gitconfig", Access: 1, Optional: true},
			{Path: "/etc/gitattributes", Access: 1, Optional: true},
		}, Env: Env{Pass: []string{"EDITOR", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "PAGER"}, Set: map[string]string{"GIT_TERMINAL_PROMPT": "0"}}}
	case "go":
		return &Document{Source: "preset:go", Name: "go", Extends: []string{"base"}, Files: []FileRule{
			{Path: "$WORKSPACE", Access: 7},
			{Path: "~/go", Access: 5, Optional: true},
			{Path: "~/sdk", Access: 5, Optional: true},
			{Path: "~/.cache/go-build", Access: 7, Optional: true},
			{Path: "$XDG_CONFIG_HOME/go/env", Access: 1, Optional: true},
			{Path: "/etc/ld.so.conf", Access: 1, Optional: true},
			{Path: "/etc/ld.so.conf.d", Access: 1, Optional: true},
		}, Env: Env{Pass: []string{"CC", "CGO_ENABLED", "CXX", "GOARCH", "GOCACHE", "GOEXPERIMENT", "GOFLAGS", "GOMODCACHE", "GOOS", "GOPATH", "GOPRIVATE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"}}, Process: ProcessRules{TTY: new(true)}}
	case "node":
		return &Document{Source: "preset:node", Name: "node", Extends: []string{"base"}, Files: []FileRule{
			{Path: "$WORKSPACE", Access: 7},
			{Path: "~/.nvm", Access: 5, Optional: true},
			{Path: "~/.volta", Access: 5, Optional: true},
			{Path: "~/.local/share/fnm", Access: 5, Optional: true},
			{Path: "~/.local/share/pnpm", Access: 5, Optional: true},
			{Path: "/opt/node", Access: 5, Optional: true},
			{Path: "/etc/ld.so.conf", Access: 1, Optional: true},
			{Path: "/etc/ld.so.conf.d", Access: 1, Optional: true},
		}, Env: Env{Pass: []string{"CI", "FORCE_COLOR", "NODE_ENV", "NODE_OPTIONS", "NODE_PATH"}}, Process: ProcessRules{TTY: new(true)}}
	case "python":
		return &Document{Source: "preset:python", Name: "python", Extends: []string{"base"}, Files: []FileRule{
			{Path: "$WORKSPACE", Access: 7},
			{Path: "/etc/python3", Access: 5, Optional: true},
			{Path: "~/.pyenv", Access: 5, Optional: true},
			{Path: "~/.local/share/uv/python", Access: 5, Optional: true},
			{Path: "~/.local/lib", Access: 5, Optional: true},
			{Path: "~/.local/bin", Access: 5, Optional: true},
			{Path: "/opt/python", Access: 5, Optional: true},
			{Path: "/etc/ld.so.conf", Access: 1, Optional: true},
			{Path: "/etc/ld.so.conf.d", Access: 1, Optional: true},
		}, Env: Env{Pass: []string{"PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONUTF8", "VIRTUAL_ENV"}}, Process: ProcessRules{TTY: new(true)}}
	case "shell":
		return &Document{Source: "preset:shell", Name: "shell", Extends: []string{"base"}, Files: []FileRule{
			{Path: "$WORKSPACE", Access: 7},
			{Path: "/etc/profile", Access: 1, Optional: true},
			{Path: "/etc/profile.d", Access: 1, Optional: true},
			{Path: "/etc/bash.bashrc", Access: 1, Optional: true},
			{Path: "/etc/bashrc", Access: 1, Optional: true},
			{Path: "/etc/bash_completion", Access: 1, Optional: true},
			{Path: "/etc/bash_completion.d", Access: 1, Optional: true},
			{Path: "/etc/zsh", Access: 1, Optional: true},
			{Path: "/etc/shells", Access: 1, Optional: true},
			{Path: "/etc/environment", Access: 1, Optional: true},
			{Path: "~/.profile", Access: 1, Optional: true},
			{Path: "~/.bashrc", Access: 1, Optional: true},
			{Path: "~/.bash_profile", Access: 1, Optional: true},
			{Path: "~/.zshrc", Access: 1, Optional: true},
			{Path: "~/.inputrc", Access: 1, Optional: true},
			{Path: "/etc/locale.alias", Access: 1, Optional: true},
			{Path: "/etc/networks", Access: 1, Optional: true},
			{Path: "/etc/magic", Access: 1, Optional: true},
			{Path: "/etc/inputrc", Access: 1, Optional: true},
			{Path: "/etc/ca-certificates", Access: 1, Optional: true},
			{Path: "/etc/ca-certificates.conf", Access: 1, Optional: true},
			{Path: "/etc/debian_version", Access: 1, Optional: true},
			{Path: "/etc/default/locale", Access: 1, Optional: true},
			{Path: "/etc/host.conf", Access: 1, Optional: true},
			{Path: "/etc/ld.so.conf", Access: 1, Optional: true},
			{Path: "/etc/ld.so.conf.d", Access: 1, Optional: true},
			{Path: "/etc/terminfo", Access: 1, Optional: true},
		}, Env: Env{Pass: []string{"EDITOR", "PAGER", "SHELL", "VISUAL"}}, Process: ProcessRules{TTY: new(true)}}
	}
	return nil
}
