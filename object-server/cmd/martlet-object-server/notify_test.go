package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestSystemdIsToldThatTheServerIsReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	sayReady()
	if err := listener.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 64)
	if n, err := listener.Read(text); err != nil || string(text[:n]) != "READY=1" {
		t.Errorf("systemd got %q, %v", text[:n], err)
	}
	t.Setenv("NOTIFY_SOCKET", path+"-absent")
	sayReady()
	t.Setenv("NOTIFY_SOCKET", "")
	sayReady()
}
