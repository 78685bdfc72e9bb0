package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"martlet/object-server/server"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/relink"
)

// relinkerHost is a host with a device d1 and a conf, and no server.
func relinkerHost(t *testing.T) (directory, conf string) {
	t.Helper()
	directory = t.TempDir()
	conf = filepath.Join(directory, "object-server.conf")
	write(t, filepath.Join(directory, "martlet.conf"), "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = x\n[storage-policy:1]\nname = silver\n")
	write(t, conf, fmt.Sprintf("[DEFAULT]\nswift_dir = %s\ndevices = %s/devices\nmount_check = false\nbind_ip = 127.0.0.1\nbind_port = 1\n", directory, directory))
	if err := os.MkdirAll(filepath.Join(directory, "devices", "d1"), 0o755); err != nil {
		t.Fatal(err)
	}
	return directory, conf
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeRing writes a ring of one device; next is -1 where no power is raised.
func writeRing(t *testing.T, directory string, power, next int) {
	t.Helper()
	raised := ""
	if next >= 0 {
		raised = fmt.Sprintf(`"next_part_power": %d, `, next)
	}
	json := fmt.Sprintf(`{"byteorder": "little", %s"part_shift": %d, "replica_count": 1, "devs": [{"id": 0, "device": "d1", "ip": "127.0.0.1", "port": 1, "zone": 1, "weight": 1}]}`,
		raised, 32-power)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte("R1NG\x00\x01"))
	_, _ = z.Write([]byte{0, 0, byte(len(json) >> 8), byte(len(json))})
	_, _ = z.Write([]byte(json))
	_, _ = z.Write(make([]byte, 2<<power))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(directory, "object.ring.gz"), b.String())
}

// Each step is taken if the ring asks for it, with the exit status of Swift's
// relinker; without a server the command takes the step itself.
func TestRelinkerSteps(t *testing.T) {
	directory, path := relinkerHost(t)
	for i, c := range []struct {
		power, next int
		arguments   []string
		status      int
		says        string
	}{
		{3, -1, []string{"relink", path}, 2, "No policy found"},
		{3, -1, []string{"cleanup", path}, 2, "No policy found"},
		{3, 4, []string{"cleanup", path}, 2, "No policy found"},
		{3, 4, []string{"relink", "--policy", "1", path}, 2, "No policy found"},
		{3, 4, []string{"relink", path, "--device", "d9"}, 1, "not available"},
		{3, 4, []string{"relink", path}, 0, "d1, policy 0: ready to go from part power 3 to 4"},
		{3, 3, []string{"cleanup", path}, 0, "d1, policy 0: part power 3,"}, // cancelled
		{3, 4, []string{"relink", path, "--device", "d1", "--policy", "0"}, 0, "from part power 3 to 4"},
		{4, 4, []string{"cleanup", path, "--json"}, 0, `"part_power":4,"next_part_power":null,"splitting":false`},
		{4, 4, []string{"cleanup", "--workers", "4", "--files-per-second", "50", path}, 0, "part power 4"},
		{4, 4, []string{"cleanup", "--partition", "7", path}, 2, "partition"},
		{7, 8, []string{"relink", path}, 1, "the ring is about to go from 7 to 8, that of the device 4"},
		{7, 8, []string{"relink", path, "x"}, 2, "one argument too many"},
		{7, 8, []string{"relink", path, "--policy", "gold"}, 2, "not an index"},
		{7, 8, []string{"link", path}, 2, "neither relink nor cleanup"},
		{7, 8, []string{"--help"}, 0, "usage:"},
	} {
		writeRing(t, directory, c.power, c.next)
		var stdout, stderr bytes.Buffer
		status := run(append([]string{"relinker"}, c.arguments...), &stdout, &stderr)
		if said := stdout.String() + stderr.String(); status != c.status || !strings.Contains(said, c.says) {
			t.Errorf("%d: %v: status %d, %s", i, c.arguments, status, said)
		}
	}
}

// A device that was prepared, and was away while the others were split, is split when
// it is back: no step of the command reaches it any more.
func TestRelinkerDeviceComesLate(t *testing.T) {
	directory, path := relinkerHost(t)
	writeRing(t, directory, 3, 4)
	if status := run([]string{"relinker", "relink", path}, io.Discard, io.Discard); status != 0 {
		t.Fatalf("status %d", status)
	}
	writeRing(t, directory, 4, -1)
	config, err := conf.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(config, slog.New(slog.DiscardHandler), "1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context()) // nothing is under way
	if figures := s.Relinker().Progress().Devices["d1"]["0"]; !figures.IsSplitting && figures.PartPower != 4 {
		t.Fatalf("it is not being split: %+v", figures)
	}
}

// lossyTarget is a server with prepared answers.
type lossyTarget struct{ answers []*relink.Answer }

func (l *lossyTarget) begin(*relinkerOptions) (*relink.Answer, error) { return l.look() }

func (l *lossyTarget) look() (*relink.Answer, error) {
	answer := l.answers[0]
	l.answers = l.answers[1:]
	return answer, nil
}

func (l *lossyTarget) close() error { return nil }

// A device that disappears while its partitions are split is not done.
func TestRelinkerLosesDevice(t *testing.T) {
	next := uint8(4)
	busy := map[string]relink.Device{"0": {PartPower: 3, NextPartPower: &next, IsSplitting: true}}
	done := map[string]relink.Device{"0": {PartPower: 4}}
	target := &lossyTarget{[]*relink.Answer{
		{Devices: map[string]map[string]relink.Device{"d1": busy, "d2": busy}},
		{Devices: map[string]map[string]relink.Device{"d1": done}},
	}}
	o, err := parseRelinker([]string{"cleanup"})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	answer, err := await(target, &relink.Answer{Policies: 1, Devices: map[string]map[string]relink.Device{"d1": busy, "d2": busy}}, o, &stderr)
	if err != nil || answer.Policies != 1 {
		t.Fatalf("%+v, %v", answer, err)
	}
	status, err := o.report(answer, &stdout, &stderr)
	if status != 1 || err != nil || !strings.Contains(stderr.String(), "d2, policy 0: the device has disappeared") {
		t.Fatalf("status %d, %v: %s%s", status, err, &stdout, &stderr)
	}
}

// The running server takes the steps over HTTP, and refuses wrong requests.
func TestRelinkerOverHTTP(t *testing.T) {
	directory, path := relinkerHost(t)
	writeRing(t, directory, 3, 4)
	config, err := conf.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(config, slog.New(slog.DiscardHandler), "1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context()) // nothing is under way
	for _, c := range []struct {
		method, query string
		status        int
		says          string
	}{
		{"GET", "", http.StatusOK, `"part_power":3,"next_part_power":4`}, // the device was opened with that ring
		{"POST", "?step=relink", http.StatusOK, `"policies":1`},
		{"POST", "?step=relink&policy=1", http.StatusOK, `"policies":0`},
		{"POST", "?step=cleanup", http.StatusOK, `"policies":0`},
		{"POST", "?step=relink&policy=7", http.StatusBadRequest, "policy"},
		{"POST", "?step=dance", http.StatusBadRequest, "step"},
		{"POST", "", http.StatusBadRequest, "step"},
		{"PUT", "", http.StatusMethodNotAllowed, ""},
		{"POST", "?step=relink&device=..", http.StatusOK, "invalid device name"},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(c.method, "/recon/relinker"+c.query, nil))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.query, w.Code, w.Body)
		}
	}
}
