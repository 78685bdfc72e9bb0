package auditor

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"martlet/object-server/grid"
	"martlet/object-server/grid/frame"
	"martlet/object-server/proof"
	"martlet/object-server/ring"
	"martlet/object-server/server"
	"martlet/object-server/server/conf"
	"martlet/object-server/vfs"
)

var check = proof.Check

// power is the part power of the ring.
const power = 3

// host is an object server with some devices d1, d2, ... The ring has one replica, on d1.
type host struct {
	t         testing.TB
	directory string
	port      int
	devices   int
	server    *server.Server
	log       *proof.Log
}

func newHost(t testing.TB, devices int, more string) *host {
	h := &host{t: t, directory: t.TempDir(), devices: devices, log: &proof.Log{}}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	h.port = listener.Addr().(*net.TCPAddr).Port
	for i := range devices {
		check(t, os.MkdirAll(h.device(i+1), 0o755))
	}
	write(t, filepath.Join(h.directory, "martlet.conf"),
		"[grid]\ngrid_secret = "+strings.Repeat("s", 32)+"\ngrid_plain_http = 127.0.0.1\n[swift-hash]\nswift_hash_path_suffix = x\n")
	write(t, h.conf(), fmt.Sprintf("[DEFAULT]\nswift_dir = %s\ndevices = %s/devices\nmount_check = false\nbind_ip = 127.0.0.1\nbind_port = %d\n"+
		"shutdown_timeout = 5\n[app:object-server]\nbundle_spill_size = 100000\n%s", h.directory, h.directory, h.port, more))
	h.writeRing()
	h.start(listener)
	t.Cleanup(h.stop)
	return h
}

func write(t testing.TB, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o644))
}

func (h *host) device(n int) string {
	return filepath.Join(h.directory, "devices", fmt.Sprint("d", n))
}

func (h *host) conf() string { return filepath.Join(h.directory, "object-server.conf") }

func (h *host) writeRing() {
	var all []string
	for i := range h.devices {
		all = append(all, fmt.Sprintf(`{"id": %d, "device": "d%d", "ip": "127.0.0.1", "port": %d, "region": 1, "zone": 1, "weight": 1}`, i, i+1, h.port))
	}
	text := fmt.Sprintf(`{"byteorder": "little", "part_shift": %d, "replica_count": 1, "devs": [%s]}`, 32-power, strings.Join(all, ", "))
	content := binary.BigEndian.AppendUint32([]byte("R1NG\x00\x01"), uint32(len(text)))
	content = append(append(content, text...), make([]byte, 2<<power)...)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(content)
	check(h.t, err)
	check(h.t, z.Close())
	write(h.t, filepath.Join(h.directory, "object.ring.gz"), b.String())
}

func (h *host) start(listener net.Listener) {
	config, err := conf.Read(h.conf())
	check(h.t, err)
	h.server, err = server.New(config, slog.New(slog.NewTextHandler(h.log, nil)), "")
	check(h.t, err)
	go h.server.Serve(listener)
}

func (h *host) stop() {
	if h.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check(h.t, h.server.Shutdown(ctx))
	h.server = nil
}

// auditor returns an auditor of the host, which ends with the test, and its log.
func (h *host) auditor(change ...func(*Config)) (*Auditor, *proof.Log) {
	h.t.Helper()
	config, err := conf.Read(h.conf())
	check(h.t, err)
	log := &proof.Log{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	options := frame.Defaults()
	options.Name = "auditor"
	connections, err := grid.New(grid.Config{Secrets: config.Grid.Secrets, Options: options, Log: logger})
	check(h.t, err)
	h.t.Cleanup(func() { connections.Close() })
	with := Config{
		Rings: &ring.Files{Directory: h.directory}, Policies: []int{0}, Grid: connections, NodeTimeout: time.Minute, Stall: time.Minute,
		Devices: filepath.Join(h.directory, "devices"), Files: vfs.ReadOnly{Ahead: true}, Hasher: ring.NewHasher("", "x"),
		IsOwn: func(d *ring.Device) bool { return d.Port == h.port }, Logger: logger, Intervals: [kinds]time.Duration{time.Hour, time.Hour},
	}
	for _, do := range change {
		do(&with)
	}
	return New(with), log
}

// once runs one pass.
func (h *host) once(kind Kind) *Report {
	h.t.Helper()
	a, log := h.auditor()
	report, err := a.Once(context.Background(), kind)
	check(h.t, err)
	h.t.Logf("%v pass: %+v %s", kind, *report, log)
	return report
}

func partitionOf(name string) uint32 {
	hash := ring.NewHasher("", "x").Object("a", "c", name)
	return binary.BigEndian.Uint32(hash[:]) >> (32 - power)
}

// ask sends a request for an object on the first device.
func (h *host) ask(method, name string, ticks int, body []byte) (status int, answer []byte) {
	h.t.Helper()
	url := fmt.Sprintf("http://127.0.0.1:%d/d1/%d/a/c/%s", h.port, partitionOf(name), name)
	q, err := http.NewRequest(method, url, bytes.NewReader(body))
	check(h.t, err)
	q.Header.Set("X-Timestamp", fmt.Sprintf("%010d.%05d", 1_700_000_000+ticks/100_000, ticks%100_000))
	q.Header.Set("Content-Type", "text/plain")
	a, err := http.DefaultTransport.RoundTrip(q)
	check(h.t, err)
	defer a.Body.Close()
	answer, err = io.ReadAll(a.Body)
	check(h.t, err)
	return a.StatusCode, answer
}

func (h *host) put(name string, ticks, size int) {
	h.t.Helper()
	if status, answer := h.ask(http.MethodPut, name, ticks, content(name, size)); status != 201 {
		h.t.Fatalf("PUT %s: %d %s", name, status, answer)
	}
}

// content depends on the name in every part of it.
func content(name string, size int) []byte {
	sum := md5.Sum([]byte(name))
	return bytes.Repeat(sum[:], size/len(sum)+1)[:size]
}

// rot changes a byte so far behind the places where some bytes lie in the files of the first device.
func (h *host) rot(some []byte, behind int) (count int) {
	h.t.Helper()
	check(h.t, filepath.WalkDir(h.device(1), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		at := bytes.Index(b, some)
		if err != nil || at < 0 {
			return err
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		check(h.t, err)
		_, err = file.WriteAt([]byte{b[at+behind] ^ 1}, int64(at+behind))
		check(h.t, err)
		count++
		return file.Close()
	}))
	return count
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}
