package main

import (
	"bytes"
	"strings"
	"testing"
)

// The command line of audit is checked before anything is read.
func TestAuditCommandLine(t *testing.T) {
	for _, c := range []struct {
		arguments string
		status    int
		stdout    string
		stderr    string
	}{
		{"--help", 0, "usage: martlet-object-server audit", ""},
		{"--once x.conf -h", 0, "usage: martlet-object-server audit", ""},
		{"--json", 2, "", "audit: --json needs --once"},
		{"--fast", 2, "", "audit: --fast needs --once"},
		{"--policy x", 2, "", "audit: invalid value"},
		{"a.conf b.conf", 2, "", `audit: "b.conf" is one argument too many`},
		{"--once --fast /not/there.conf", 1, "", "audit: /not/there.conf"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(append([]string{"audit"}, strings.Fields(c.arguments)...), &stdout, &stderr)
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: %d %q %q", c.arguments, status, &stdout, &stderr)
		}
	}
}
