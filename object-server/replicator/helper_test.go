package replicator

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
)

var check = proof.Check

// power is the part power of the ring of a cluster.
const power = 3

// cluster is some hosts, each with an object server of one device. The ring has three replicas.
type cluster struct {
	t           testing.TB
	root        string
	hosts       []*host
	ringVersion int // of the rings that are written
}

// host runs the server of the device d1 in its directory.
type host struct {
	*cluster
	number    int
	port      int
	directory string
	server    *server.Server
}

func newCluster(t testing.TB, hosts int) *cluster {
	c := &cluster{t: t, root: t.TempDir()}
	for i := range hosts {
		h := &host{cluster: c, number: i, port: proof.FreePort(t), directory: filepath.Join(c.root, fmt.Sprint(i))}
		check(t, os.MkdirAll(filepath.Join(h.directory, "devices", "d1"), 0o755))
		write(t, filepath.Join(h.directory, "martlet.conf"),
			"[grid]\ngrid_secret = "+strings.Repeat("s", 32)+"\ngrid_plain_http = 127.0.0.1\n[swift-hash]\nswift_hash_path_suffix = x\n")
		write(t, h.conf(), fmt.Sprintf("[DEFAULT]\nswift_dir = %s\ndevices = %s/devices\nmount_check = false\nbind_ip = 127.0.0.1\nbind_port = %d\n"+
			"shutdown_timeout = 5\n[app:object-server]\nbundle_spill_size = 100000\nbundle_journal_size = 8388608\n", h.directory, h.directory, h.port))
		c.hosts = append(c.hosts, h)
	}
	c.writeRings()
	for _, h := range c.hosts {
		h.start()
		t.Cleanup(func() { h.stop() })
	}
	return c
}

func write(t testing.TB, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o644))
}

// primaries are the numbers of the hosts that have a partition.
func (c *cluster) primaries(partition uint32) []int {
	var all []int
	for i := range 3 {
		all = append(all, (int(partition)+i)%len(c.hosts))
	}
	return all
}

// writeRings gives all hosts a ring in which the primaries of a partition are as primaries says.
func (c *cluster) writeRings() { c.writeRing(c.primaries, c.hosts...) }

// writeRing gives some hosts a ring file of version 1. more are further devices, as JSON.
func (c *cluster) writeRing(primaries func(partition uint32) []int, hosts ...*host) {
	c.writeRingWith(power, nil, primaries, hosts...)
}

func (c *cluster) writeRingWith(power int, more []string, primaries func(partition uint32) []int, hosts ...*host) {
	var devices []string
	for i, h := range c.hosts {
		devices = append(devices, fmt.Sprintf(`{"id": %d, "device": "d1", "ip": "127.0.0.1", "port": %d, "region": 1, "zone": 1, "weight": 1}`, i, h.port))
	}
	devices = append(devices, more...)
	json := fmt.Sprintf(`{"byteorder": "little", "part_shift": %d, "replica_count": 3, "version": %d, "devs": [%s]}`, 32-power, c.ringVersion, strings.Join(devices, ", "))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	content := binary.BigEndian.AppendUint32([]byte("R1NG\x00\x01"), uint32(len(json)))
	content = append(content, json...)
	for replica := range 3 {
		for partition := range uint32(1 << power) {
			content = binary.LittleEndian.AppendUint16(content, uint16(primaries(partition)[replica]))
		}
	}
	_, err := z.Write(content)
	check(c.t, err)
	check(c.t, z.Close())
	for _, h := range hosts {
		write(c.t, filepath.Join(h.directory, "object.ring.gz"), b.String())
	}
}

func (h *host) conf() string { return filepath.Join(h.directory, "object-server.conf") }

func (h *host) device() string { return filepath.Join(h.directory, "devices", "d1") }

func (h *host) start() {
	config, err := conf.Read(h.conf())
	check(h.t, err)
	h.server, err = server.New(config, slog.New(slog.NewTextHandler(&proof.Log{}, nil)), "")
	check(h.t, err)
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", h.port))
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

// wipe puts an empty disk in place of the device.
func (h *host) wipe() {
	h.stop()
	check(h.t, os.RemoveAll(h.device()))
	check(h.t, os.Mkdir(h.device(), 0o755))
	check(h.t, os.RemoveAll(filepath.Join(filepath.Dir(h.device()), ".martlet-devices", "d1"))) // without mount_check, an operator says so
	h.start()
}

// replicator returns the replicator of a host, with the grid and the log that it uses.
func (h *host) replicator(change ...func(*Config)) (*Replicator, *grid.Grid, *proof.Log) {
	h.t.Helper()
	config, err := conf.Read(h.conf())
	check(h.t, err)
	log := &proof.Log{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	options := frame.Defaults()
	options.Name = "replicator"
	connections, err := grid.New(grid.Config{Secrets: config.Grid.Secrets, Options: options, Log: logger})
	check(h.t, err)
	with := Config{
		Rings: &ring.Files{Directory: h.directory}, Policies: []int{0}, Grid: connections, NodeTimeout: time.Minute, Concurrency: 2, Devices: filepath.Dir(h.device()),
		IsOwn: func(d *ring.Device) bool { return d.Port == h.port }, Logger: logger,
	}
	for _, do := range change {
		do(&with)
	}
	return New(with), connections, log
}

// pass runs one pass of the replicator of a host.
func (h *host) pass() *Report {
	h.t.Helper()
	r, connections, log := h.replicator()
	defer connections.Close()
	report, err := r.Pass(context.Background(), 0)
	check(h.t, err)
	h.t.Logf("host %d: %+v %s", h.number, *report, log)
	return report
}

// devicePass is a pass over the device of a host, to be made step by step.
func (h *host) devicePass(r *Replicator) *devicePass {
	h.t.Helper()
	current, err := r.config.Rings.Object(0)
	check(h.t, err)
	for _, d := range current.Devices {
		if r.config.IsOwn(d) {
			return r.passOf(current, 0, d)
		}
	}
	h.t.Fatal("the ring has no device of the host")
	return nil
}

// passAll runs a pass of each host that is up, and adds the reports.
func (c *cluster) passAll() *Report {
	c.t.Helper()
	var total Report
	for _, h := range c.hosts {
		if h.server != nil {
			total.add(h.pass())
		}
	}
	return &total
}

func partitionOf(name string) uint32 {
	hash := ring.NewHasher("", "x").Object("a", "c", name)
	return binary.BigEndian.Uint32(hash[:]) >> (32 - power)
}

// stamp is the text of a time.
func stamp(ticks int) string {
	return fmt.Sprintf("%010d.%05d", 1_700_000_000+ticks/100_000, ticks%100_000)
}

// ask sends a request for an object, with more headers in pairs.
func (h *host) ask(method, name string, ticks int, body []byte, headers ...string) (status int, answer []byte) {
	h.t.Helper()
	status, _, answer = h.exchange(method, name, ticks, body, headers...)
	return status, answer
}

// exchange is ask with the headers of the answer.
func (h *host) exchange(method, name string, ticks int, body []byte, headers ...string) (int, http.Header, []byte) {
	h.t.Helper()
	url := fmt.Sprintf("http://127.0.0.1:%d/d1/%d/a/c/%s", h.port, partitionOf(name), name)
	q, err := http.NewRequest(method, url, bytes.NewReader(body))
	check(h.t, err)
	q.Header.Set("X-Timestamp", stamp(ticks))
	q.Header.Set("Content-Type", "text/plain")
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	check(h.t, err)
	defer a.Body.Close()
	answer, err := io.ReadAll(a.Body)
	check(h.t, err)
	return a.StatusCode, a.Header, answer
}

// put writes an object to some hosts.
func (c *cluster) put(name string, ticks int, body []byte, hosts ...int) {
	c.t.Helper()
	for _, i := range hosts {
		if status, answer := c.hosts[i].ask(http.MethodPut, name, ticks, body); status != 201 {
			c.t.Fatalf("PUT %s at host %d: %d %s", name, i, status, answer)
		}
	}
}

// wantObject checks that hosts have an object.
func (c *cluster) wantObject(name string, body []byte, hosts ...int) {
	c.t.Helper()
	for _, i := range hosts {
		if status, answer := c.hosts[i].ask(http.MethodGet, name, 0, nil); status != 200 || !bytes.Equal(answer, body) {
			c.t.Errorf("GET %s at host %d: %d, %d bytes of %d", name, i, status, len(answer), len(body))
		}
	}
}

func (c *cluster) wantStatus(name string, want int, hosts ...int) {
	c.t.Helper()
	for _, i := range hosts {
		if status, _ := c.hosts[i].ask(http.MethodGet, name, 0, nil); status != want {
			c.t.Errorf("GET %s at host %d: %d, not %d", name, i, status, want)
		}
	}
}

// content depends on the name in every part of it.
func content(name string, size int) []byte {
	sum := md5.Sum([]byte(name))
	return bytes.Repeat(sum[:], size/len(sum)+1)[:size]
}
