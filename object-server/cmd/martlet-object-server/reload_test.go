package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (p *process) awaitLog(part string) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(p.log.String(), part); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("not logged: %s\n%s", part, p.log.String())
		}
	}
}

func (p *process) signal(number os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(number); err != nil {
		p.t.Fatal(err)
	}
}

func TestNoSignalOfAReloadEndsTheServer(t *testing.T) {
	h := newHome(t, 0)
	p := h.start()
	conf, err := os.ReadFile(h.conf)
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(line string) {
		changed := strings.Replace(string(conf), "[DEFAULT]\n", "[DEFAULT]\n"+line+"\n", 1)
		if err := os.WriteFile(h.conf, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.put("/sda/1/a/c/o", "x", "1700000000.00000")
	for _, c := range []struct {
		line   string
		number os.Signal
		want   string
	}{
		{"log_level = WARNING", syscall.SIGHUP, "signal=SIGHUP log_level=WARN"},
		{"bnid_ip = 1", syscall.SIGHUP, `level=ERROR msg="reload refused`},
		{"log_level = DEBUG", syscall.SIGUSR1, "signal=SIGUSR1 log_level=DEBUG"},
		{"", syscall.SIGUSR2, `msg="signal has no meaning here" signal=SIGUSR2`},
	} {
		rewrite(c.line)
		p.signal(c.number)
		p.awaitLog(c.want)
		if c.number == syscall.SIGHUP {
			p.expectBody("/sda/1/a/c/o", "x")
		}
	}
	if strings.Contains(p.log.String(), "method=GET") {
		t.Error("a request is logged at INFO, where the level is WARNING")
	}
	p.expectBody("/sda/1/a/c/o", "x")
	p.awaitLog("method=GET")
}
