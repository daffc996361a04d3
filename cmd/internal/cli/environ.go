package cli

import (
	"sort"
	"strings"
)

// plainPath is the search path of a run whose profile passes none.
const plainPath = "/usr/local/bin:/usr/bin:/bin"

// environment is what a profile wants of a run's environment.
type environment struct {
	pass   []string          // names, or prefixes that end in *
	set    map[string]string // fixed values
	secret map[string]string // values of the resolved secrets
}

// buildEnv makes the complete environment of a run from nothing: what the
// profile passes of outside, then the variables that every run has, then what
// is set, then secrets. The result is sorted by name.
func buildEnv(e environment, outside []string, id identity) []string {
	vars := map[string]string{}
	for _, pair := range outside {
		name, value, ok := strings.Cut(pair, "=")
		if ok && name != "" && passes(e.pass, name) {
			vars[name] = value
		}
	}
	if vars["PATH"] == "" {
		vars["PATH"] = plainPath
	}
	vars["HOME"] = id.home
	if id.home == "" {
		vars["HOME"] = "/"
	}
	vars["USER"], vars["LOGNAME"] = id.user, id.user
	vars["TMPDIR"] = "/tmp"
	for name, value := range e.set {
		vars[name] = value
	}
	for name, value := range e.secret {
		vars[name] = value
	}
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	sort.Strings(env)
	return env
}

// passes reports whether a variable goes in. One that makes programs load code
// or run commands goes in only under its full name.
func passes(pass []string, name string) bool {
	for _, p := range pass {
		if p == name {
			return true
		}
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(name, prefix) && !loadsCode(name) {
			return true
		}
	}
	return false
}

// loaderNames are variables by which whoever sets them runs code in another
// program: glibc's list of what a setuid program must not see
// (sysdeps/generic/unsecvars.h), and the start-up hooks of the shells and
// interpreters that presets run.
var loaderNames = map[string]bool{
	"GCONV_PATH": true, "GETCONF_DIR": true, "GLIBC_TUNABLES": true, "HOSTALIASES": true, "LOCALDOMAIN": true,
	"LOCPATH": true, "MALLOC_TRACE": true, "NIS_PATH": true, "NLSPATH": true, "RESOLV_HOST_CONF": true,
	"RES_OPTIONS": true, "TZDIR": true,
	"BASH_ENV": true, "ENV": true, "SHELLOPTS": true, "BASHOPTS": true, "PROMPT_COMMAND": true, "ZDOTDIR": true,
	"PYTHONSTARTUP": true, "PYTHONPATH": true, "PYTHONHOME": true, "NODE_OPTIONS": true, "NODE_PATH": true,
	"PERL5OPT": true, "PERL5LIB": true, "RUBYOPT": true, "RUBYLIB": true, "JAVA_TOOL_OPTIONS": true,
}

func loadsCode(name string) bool {
	return loaderNames[name] || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") ||
		strings.HasPrefix(name, "BASH_FUNC_")
}

// getenv reads a variable of an environment.
func getenv(env []string, name string) string {
	for _, pair := range env {
		if k, v, ok := strings.Cut(pair, "="); ok && k == name {
			return v
		}
	}
	return ""
}
