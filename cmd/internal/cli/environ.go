package cli

import (
	"slices"
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
var loaderNames = []string{
	"GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "HOSTALIASES", "LOCALDOMAIN",
	"LOCPATH", "MALLOC_TRACE", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF",
	"RES_OPTIONS", "TZDIR",
	"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "ZDOTDIR",
	"PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "NODE_OPTIONS", "NODE_PATH",
	"PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS",
}

func loadsCode(name string) bool {
	return slices.Contains(loaderNames, name) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") ||
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
