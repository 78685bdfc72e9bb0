package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/proof"
)

// bundle runs a bundle command and returns its output and status.
func bundleCommand(t *testing.T, arguments ...string) (output, problems string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := exec.Command(binary, append([]string{"bundle"}, arguments...)...)
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), c.ProcessState.ExitCode()
}

// expect runs a bundle command that must end with a status and print each text.
func expect(t *testing.T, wantStatus int, texts []string, arguments ...string) string {
	t.Helper()
	output, problems, status := bundleCommand(t, arguments...)
	if status != wantStatus {
		t.Fatalf("%v: status %d\n%s%s", arguments, status, output, problems)
	}
	for _, text := range texts {
		if !strings.Contains(output+problems, text) {
			t.Errorf("%v lacks %q:\n%s%s", arguments, text, output, problems)
		}
	}
	return output
}

// filled is a device on which a server has stored something, and the server.
func filled(t *testing.T) (h *home, p *process, device string) {
	h = newHome(t, 0)
	p = h.start()
	for i := range 20 {
		p.put(fmt.Sprintf("/sda/1/a/c/o%d", i), strings.Repeat("x", 1000+i), "1700000000.00000")
	}
	p.put("/sda/1/a/c/o3", "newer", "1700000001.00000", "X-Object-Meta-Color", "red")
	p.put("/sda/2/a/c/large", strings.Repeat("0123456789", 300_000), "1700000000.00000")
	return h, p, filepath.Join(h.dir, "devices", "sda")
}

func (p *process) stop() {
	p.t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		p.t.Fatalf("%v\n%s", err, p.log.String())
	}
}

func TestBundleListsAndDumps(t *testing.T) {
	_, p, device := filled(t)
	partition := filepath.Join(device, "bundles", "1")
	segment := filepath.Join(partition, "00000001-0000.bundle")
	expect(t, 0, []string{"partition", "segments"}, "ls", device)
	expect(t, 0, []string{"00000001-0000.bundle", "21"}, "ls", partition)
	expect(t, 0, []string{"PUT", "/a/c/o7", "1700000000.00000"}, "ls", segment)
	var listing []struct {
		Partition, Names, Large int
		DeadBytes               int `json:"dead_bytes"`
	}
	readLines(t, expect(t, 0, nil, "ls", "--json", device), &listing)
	if len(listing) != 2 || listing[0].Names != 20 || listing[0].DeadBytes == 0 || listing[1].Large != 1 {
		t.Errorf("%+v", listing)
	}
	var objects []struct {
		Name, Timestamp string
		Size            int
	}
	readLines(t, expect(t, 0, nil, "ls", "--objects", "--json", device), &objects)
	if len(objects) != 21 || objects[20].Name != "/a/c/large" || objects[20].Size != 3_000_000 {
		t.Errorf("%+v", objects)
	}
	expect(t, 0, []string{"1700000001.00000", "/a/c/o3\n"}, "ls", "--objects", partition)
	if lines := strings.Count(expect(t, 0, nil, "ls", "--json", segment), "\n"); lines != 21 {
		t.Errorf("%d lines", lines)
	}
	expect(t, 0, []string{"/a/c/o3", "X-Object-Meta-Color: red", "data: good"}, "dump", "--name", "/a/c/o3", segment)
	expect(t, 0, []string{`"lsn":5`, `"/a/c/o4"`}, "dump", "--json", "--lsn", "5", segment)
	if data := expect(t, 0, nil, "dump", "--data", "-", "--name", "/a/c/o3", segment); data != "newer" {
		t.Errorf("%q", data)
	}
	copied := filepath.Join(t.TempDir(), "o7")
	expect(t, 0, nil, "dump", "--data", copied, "--name", "/a/c/o7", segment)
	if readFile(t, copied) != strings.Repeat("x", 1007) {
		t.Error("dump --data has written something else")
	}
	expect(t, 2, []string{"exists"}, "dump", "--data", copied, "--name", "/a/c/o7", segment)
	if all := expect(t, 0, []string{"partition          1\n"}, "dump", segment); strings.Count(all, "\ntype               PUT\n") != 21 {
		t.Error(all)
	}
	if lines := strings.Count(expect(t, 0, nil, "dump", "--json", segment), "\n"); lines != 22 {
		t.Errorf("%d lines", lines)
	}
	expect(t, 2, []string{"large/"}, "dump", "--data", "-", "--name", "/a/c/large", strings.Replace(segment, "/1/", "/2/", 1))
	p.stop()
}

func TestBundleCommandLine(t *testing.T) {
	_, p, device := filled(t)
	segment := filepath.Join(device, "bundles", "1", "00000001-0000.bundle")
	for _, arguments := range [][]string{
		{}, {"ls"}, {"list", device}, {"ls", "--color", device}, {"ls", "--objects", "--versions", device}, {"dump", "--data", "-", segment}, {"dump", "--lsn", "1", "--offset", "128", segment},
		{"verify", "--rate", "fast", device}, {"repair", device, device}, {"repair", "--yes", device},
	} {
		_, problems, status := bundleCommand(t, arguments...)
		if status != 2 || problems == "" {
			t.Errorf("%v: status %d, %q", arguments, status, problems)
		}
	}
	for _, command := range []string{"ls", "dump", "verify", "repair", "damages"} {
		expect(t, 0, []string{"usage: martlet-object-server bundle " + command, "examples:"}, command, "--help")
	}
	expect(t, 0, []string{"examples:"}, "--help")
	for _, arguments := range [][]string{
		{"ls", device + "x"}, {"ls", "/usr"}, {"verify", "/usr"}, {"dump", "--hash", "zz", segment}, {"verify", "/etc/passwd"}, {"dump", "--lsn", "99", segment}, {"dump", "--offset", "64", segment},
		{"dump", "--lsn", "1", device}, {"repair", segment},
	} {
		output, problems, status := bundleCommand(t, arguments...)
		if status != 2 || output != "" || strings.Count(problems, "\n") != 1 {
			t.Errorf("%v: status %d, %q, %q", arguments, status, output, problems)
		}
	}
	other, _ := relinkerHost(t)
	for _, apply := range []string{"--json", "--apply"} {
		expect(t, 2, []string{"is in use: name the conf of its server with --conf", "none.conf"}, "repair", apply, "--conf", "none.conf", device)
		expect(t, 2, []string{"is in use, but not below the devices of"}, "repair", apply, "--conf", filepath.Join(other, "object-server.conf"), device)
	}
	p.stop()
}

// A running device is clean while it is written to; a stopped one with a flipped
// byte is not, until it is repaired.
func TestBundleVerifyAndRepair(t *testing.T) {
	h, p, device := filled(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			p.put(fmt.Sprintf("/sda/1/a/c/w%d", i), strings.Repeat("y", 5000), fmt.Sprintf("17000001%02d.%05d", i/40, i))
			if i%10 == 0 {
				p.put("/sda/2/a/c/large", strings.Repeat("z", 2<<20), fmt.Sprintf("1700000%03d.00000", 200+i))
			}
		}
	}()
	for isDone := false; !isDone; {
		expect(t, 0, []string{"0 damages"}, "verify", device)
		select {
		case <-done:
			isDone = true
		default:
		}
	}
	p.stop()
	partition := filepath.Join(device, "bundles", "1")
	segment := filepath.Join(partition, "00000001-0000.bundle")
	var record struct{ Offset, Length int64 }
	if err := json.Unmarshal([]byte(expect(t, 0, nil, "dump", "--json", "--name", "/a/c/o5", segment)), &record); err != nil {
		t.Fatal(err)
	}
	flipByte(t, segment, record.Offset+record.Length/2)
	before := readFile(t, segment)
	want := []string{partition, fmt.Sprintf("offset %d", record.Offset), "/a/c/o5"}
	expect(t, 1, want, "verify", device)
	expect(t, 1, []string{partition, fmt.Sprintf(`"offset":%d`, record.Offset), "/a/c/o5"}, "verify", "--json", "--rate", "100M", partition)
	expect(t, 1, want[1:], "verify", segment)
	expect(t, 1, append(want, "nothing was changed"), "repair", device)
	expect(t, 1, append(want[2:], "false"), "repair", "--json", partition)
	if readFile(t, segment) != before {
		t.Error("verify or a dry run has changed the segment")
	}
	expect(t, 0, append(want, "1 partition repaired"), "repair", "--apply", device)
	expect(t, 0, []string{"0 damages"}, "verify", device)
	expect(t, 0, []string{"nothing is damaged"}, "repair", "--apply", device)
	kept, err := filepath.Glob(filepath.Join(device, "quarantined", "objects", "1-*", "00000001-0000.bundle"))
	if err != nil || len(kept) != 1 || readFile(t, kept[0]) != before {
		t.Errorf("in quarantine: %v, %v", kept, err)
	}
	expect(t, 1, want[1:], "verify", kept[0])
	for _, directory := range []string{filepath.Dir(kept[0]), filepath.Join(device, "quarantined")} {
		expect(t, 1, append([]string{kept[0], "1 segment,", ": 1 damage"}, want[1:]...), "verify", directory)
		expect(t, 0, []string{"/a/c/o5"}, "ls", directory)
		expect(t, 0, []string{`"path":"` + kept[0] + `"`, "/a/c/o5"}, "ls", "--json", directory)
		if _, problems, status := bundleCommand(t, "repair", directory); status != 2 || !strings.Contains(problems, "is in quarantine") {
			t.Errorf("repair in quarantine: %d, %s", status, problems)
		}
	}
	p = h.start()
	p.expectBody("/sda/1/a/c/o6", strings.Repeat("x", 1006))
	if status, _ := p.do("GET", "/sda/1/a/c/o5", ""); status != 404 {
		t.Errorf("the lost object: %d", status)
	}
	p.put("/sda/1/a/c/o5", "back", "1700000000.00000")
	p.expectBody("/sda/1/a/c/o5", "back")
	p.stop()
	expect(t, 0, []string{"0 damages"}, "verify", device)
}

// ordersOfRepairs sends orders, most of which the server cannot take.
func ordersOfRepairs(t *testing.T, p *process) {
	t.Helper()
	for query, status := range map[string]int{
		"device=sda&policy=0&partition=1": 200, "device=sda&policy=9&partition=1": 400, "device=sda&policy=0&partition=x": 400, "device=..&policy=0&partition=1": 400,
		"device=sdz&policy=0&partition=1": 507,
	} {
		if got, body := p.do("POST", "/recon/repair?"+query, ""); got != status {
			t.Errorf("%s: %d %s", query, got, body)
		}
	}
	if status, _ := p.do("GET", "/recon/repair?device=sda&policy=0&partition=1", ""); status != 404 {
		t.Errorf("a GET: %d", status)
	}
}

// A server that runs repairs a partition when the command asks it to, and goes on
// with it.
func TestBundleRepairsWhileTheServerRuns(t *testing.T) {
	h := newHome(t, proof.FreePort(t))
	p := h.start()
	for i := range 20 {
		p.put(fmt.Sprintf("/sda/1/a/c/o%d", i), strings.Repeat("x", 1000+i), "1700000000.00000")
		p.put(fmt.Sprintf("/sda/2/a/c/p%d", i), strings.Repeat("y", 1000+i), "1700000000.00000")
	}
	device := filepath.Join(h.dir, "devices", "sda")
	partition := filepath.Join(device, "bundles", "1")
	segment := filepath.Join(partition, "00000001-0000.bundle")
	var record struct{ Offset int64 }
	if err := json.Unmarshal([]byte(expect(t, 0, nil, "dump", "--json", "--name", "/a/c/o19", segment)), &record); err != nil {
		t.Fatal(err)
	}
	expect(t, 0, []string{"no damage is known"}, "damages", device)
	expect(t, 2, []string{"is not a device"}, "damages", partition)
	flipByte(t, segment, record.Offset+30) // in the header of the newest record
	if status, _ := p.do("GET", "/sda/1/a/c/o19", ""); status == 200 {
		t.Error("a damaged object is served")
	}
	for said := ""; !strings.Contains(said, partition) || !strings.Contains(said, fmt.Sprintf("offset %d", record.Offset)); { // the server writes it down when it can
		said, _, _ = bundleCommand(t, "damages", device)
	}
	expect(t, 1, []string{`"segment":"00000001-0000.bundle"`, `"state":"found"`}, "damages", "--json", device)
	if _, told := p.do("GET", "/recon/damages", ""); !strings.Contains(told, `"device":"sda","count":1,"newest":[{"policy":0,"partition":1,`) {
		t.Error(told)
	}
	before := readFile(t, segment)
	want := []string{partition, fmt.Sprintf("offset %d", record.Offset), "/a/c/o19"}
	expect(t, 1, append(want, "is written anew", "1 partition damaged; nothing was changed"), "repair", "--conf", h.conf, device)
	if readFile(t, segment) != before {
		t.Error("a dry run has changed the segment")
	}
	var repaired []struct {
		Path, Quarantine string
		Done             bool
		Damages          []struct {
			Lost []struct{ Name string }
		}
	}
	readLines(t, expect(t, 0, nil, "repair", "--apply", "--json", "--conf", h.conf, partition), &repaired)
	if len(repaired) != 1 || !repaired[0].Done || repaired[0].Damages[0].Lost[0].Name != "/a/c/o19" {
		t.Fatalf("%+v", repaired)
	}
	if _, err := os.Stat(filepath.Join(repaired[0].Quarantine, filepath.Base(segment))); err != nil {
		t.Error(err)
	}
	expect(t, 0, []string{"nothing is damaged"}, "repair", "--apply", "--conf", h.conf, device)
	if _, told := p.do("GET", "/recon/damages", ""); told != `[{"device":"sda","count":0,"newest":[]}]` {
		t.Error(told)
	}
	p.expectBody("/sda/1/a/c/o18", strings.Repeat("x", 1018))
	p.expectBody("/sda/2/a/c/p19", strings.Repeat("y", 1019))
	if status, _ := p.do("GET", "/sda/1/a/c/o19", ""); status != 404 {
		t.Errorf("the lost object: %d", status)
	}
	p.put("/sda/1/a/c/o19", "back", "1700000000.00000")
	p.expectBody("/sda/1/a/c/o19", "back")
	ordersOfRepairs(t, p)
	p.stop()
	expect(t, 0, []string{"0 damages"}, "verify", device)
}

// Rot that takes the end of a log is damage after a clean stop, for all commands and
// for the server, and is repaired.
func TestBundleEndRotsAfterACleanStop(t *testing.T) {
	h, p, device := filled(t)
	p.stop()
	partition := filepath.Join(device, "bundles", "1")
	segment := filepath.Join(partition, "00000001-0000.bundle")
	if err := os.Truncate(segment, int64(len(readFile(t, segment))-500)); err != nil {
		t.Fatal(err)
	}
	expect(t, 1, []string{"1 damage", "records 20 to 22"}, "verify", device)
	expect(t, 1, []string{"records 20 to 22 lost"}, "ls", device)
	p = h.start()
	if status, _ := p.do("PUT", "/sda/3/a/c/other", "y", "X-Timestamp", "1700000000.00000", "Content-Type", "text/plain"); status != 201 {
		t.Error(status)
	}
	p.stop()
	expect(t, 1, []string{"1 partition damaged"}, "repair", device)
	expect(t, 0, []string{"1 partition repaired"}, "repair", "--apply", device)
	expect(t, 0, []string{"0 damages"}, "verify", device)
	p = h.start()
	p.expectBody("/sda/1/a/c/o18", strings.Repeat("x", 1018))
	p.stop()
	expect(t, 0, []string{"0 damages"}, "verify", device)
}

// A device without any object has no damage.
func TestBundleEmptyDevice(t *testing.T) {
	device := t.TempDir()
	for _, name := range []string{"", "lost+found", "bundles"} {
		if err := os.MkdirAll(filepath.Join(device, name), 0o755); err != nil {
			t.Fatal(err)
		}
		expect(t, 0, []string{"0 partitions", "0 damages"}, "verify", device)
		expect(t, 0, nil, "ls", device)
	}
}

// Both the dry run and the repair warn that an object of unknown name may come back.
// A single thing is not reported in the plural, and a large file is reported by the
// number in its name.
func TestBundleRepairWarns(t *testing.T) {
	h := newHome(t, 0)
	p := h.start()
	p.put("/sda/1/a/c/o1", "old", "1700000000.00000")
	p.put("/sda/1/a/c/o1", "new", "1700000001.00000")
	p.put("/sda/1/a/c/large", strings.Repeat("z", 2<<20), "1700000002.00000")
	p.put("/sda/1/a/c/o2", "last", "1700000003.00000")
	p.stop()
	device := filepath.Join(h.dir, "devices", "sda")
	partition := filepath.Join(device, "bundles", "1")
	segment := filepath.Join(partition, "00000001-0000.bundle")
	expect(t, 0, []string{"1 partition, 1 segment, 4 records, 1 large file, 0 torn ends", "0 damages"}, "verify", device)
	var record struct{ Offset, Length int64 }
	if err := json.Unmarshal([]byte(expect(t, 0, nil, "dump", "--json", "--lsn", "2", segment)), &record); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(segment, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, record.Length), record.Offset); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	large, err := filepath.Glob(filepath.Join(partition, "large", "*.data"))
	if err != nil || len(large) != 1 {
		t.Fatal(large, err)
	}
	flipByte(t, large[0], 1<<20)
	id := strings.TrimSuffix(filepath.Base(large[0]), ".data")
	want := []string{"record 2: ", "1 record may be lost", "older records of names that are not known may count again"}
	expect(t, 1, []string{`"large_id":"` + id + `"`, `"unnamed":1`}, "verify", "--json", device)
	expect(t, 1, append(want, "1 partition damaged"), "repair", device)
	expect(t, 0, append(want, "1 partition repaired"), "repair", "--apply", device)
}

// A killed server leaves no damage with any sync method, not even when the journal is
// ahead of the bundles.
func TestBundleVerifyAfterAKill(t *testing.T) {
	for _, method := range []string{"fdatasync", "direct", "journal"} {
		h := newHome(t, 0)
		conf := strings.Replace(readFile(t, h.conf), "[app:object-server]\n", "[app:object-server]\nbundle_sync_method = "+method+"\nbundle_journal_size = 8388608\n", 1)
		if err := os.WriteFile(h.conf, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		p := h.start()
		for i := range 40 {
			p.put(fmt.Sprintf("/sda/%d/a/c/o%d", i%4, i), strings.Repeat("x", 100*i), "1700000000.00000")
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // killed
		device := filepath.Join(h.dir, "devices", "sda")
		expect(t, 0, []string{"4 partitions, 4 segments, 40 records", "0 torn ends", "0 damages"}, "verify", device)
		if method == "journal" { // its warning comes with damage only
			segment := filepath.Join(device, "bundles", "3", "00000001-0000.bundle")
			flipByte(t, segment, 200)
			expect(t, 1, []string{"has a journal"}, "verify", device)
			expect(t, 1, []string{"has a journal", "nothing was changed"}, "repair", device)
		}
		expect(t, 0, []string{"nothing is damaged"}, "repair", "--apply", device) // the journal has it
		p = h.start()
		p.expectBody("/sda/3/a/c/o39", strings.Repeat("x", 3900))
		p.stop()
	}
}

func flipByte(t *testing.T, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRates(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "500": 500, "3K": 3 << 10, "50M": 50 << 20, "2G": 2 << 30} {
		if n, err := readBytes(text); n != want || err != nil {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "M", "-1", "1.5M", "5MB", "99999999999G"} {
		if n, err := readBytes(text); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
	line := bar(3<<30, 12<<30, 10*time.Second)
	if line != "[######..................]  25%  3.0 GiB of 12.0 GiB  307.2 MiB/s  30s left" {
		t.Error(line)
	}
}

// readLines decodes lines of JSON.
func readLines[T any](t *testing.T, lines string, all *[]T) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var one T
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(line, err)
		}
		*all = append(*all, one)
	}
}
