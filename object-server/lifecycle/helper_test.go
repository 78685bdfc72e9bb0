package lifecycle

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"martlet/object-server/bundle/format"
	"martlet/object-server/grid"
	"martlet/object-server/proof"
	"martlet/object-server/ring"
	"martlet/object-server/server"
	"martlet/object-server/server/conf"
	"martlet/object-server/vfs"
)

// power is the part power of the ring.
const power = 3

// replicas is how many devices the host has. Each partition is on all of them.
const replicas = 3

// host is an object server with three devices, and a container server whose answers tests choose.
type host struct {
	t          *testing.T
	directory  string
	port       int
	containers *containers
	log        *proof.Log
	ports      map[int]int // of devices of other object servers
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, directory: t.TempDir(), log: &proof.Log{}, ports: map[int]int{}}
	for i := range replicas {
		check(t, os.MkdirAll(h.device(i), 0o755))
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	h.port = listener.Addr().(*net.TCPAddr).Port
	h.write("martlet.conf", "[grid]\ngrid_secret = "+strings.Repeat("s", 32)+"\ngrid_plain_http = 127.0.0.1\n[swift-hash]\nswift_hash_path_suffix = x\n")
	h.write("object-server.conf", fmt.Sprintf("[DEFAULT]\nswift_dir = %s\ndevices = %s/devices\nmount_check = false\nbind_ip = 127.0.0.1\n"+
		"bind_port = %d\ncontainer_update_timeout = 60\nconn_timeout = 60\nnode_timeout = 60\n", h.directory, h.directory, h.port))
	config, err := conf.Read(filepath.Join(h.directory, "object-server.conf"))
	check(t, err)
	h.containers = newContainers(t, config)
	h.writeRing("object", h.port)
	h.writeRing("container", h.containers.port)
	s, err := server.New(config, slog.New(slog.NewTextHandler(h.log, nil)), "")
	check(t, err)
	go s.Serve(listener)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check(t, s.Shutdown(ctx))
	})
	return h
}

func (h *host) write(name, text string) {
	h.t.Helper()
	check(h.t, os.WriteFile(filepath.Join(h.directory, name), []byte(text), 0o644))
}

func (h *host) device(i int) string {
	return filepath.Join(h.directory, "devices", fmt.Sprint("d", i))
}

// writeRing writes a ring in which device i is replica i of each partition.
func (h *host) writeRing(name string, port int) {
	h.t.Helper()
	var all []string
	var table []byte
	for i := range replicas {
		of := port
		if other, ok := h.ports[i]; ok {
			of = other
		}
		all = append(all, fmt.Sprintf(`{"id": %d, "device": "d%d", "ip": "127.0.0.1", "port": %d, "region": 1, "zone": 1, "weight": 1}`, i, i, of))
		for range 1 << power {
			table = binary.LittleEndian.AppendUint16(table, uint16(i))
		}
	}
	text := fmt.Sprintf(`{"byteorder": "little", "part_shift": %d, "replica_count": %d, "devs": [%s]}`, 32-power, replicas, strings.Join(all, ", "))
	content := binary.BigEndian.AppendUint32([]byte("R1NG\x00\x01"), uint32(len(text)))
	content = append(append(content, text...), table...)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(content)
	check(h.t, err)
	check(h.t, z.Close())
	h.write(name+".ring.gz", b.String())
}

// ask sends a request to one device. A write must be accepted.
func (h *host) ask(i int, method, name string, at format.Timestamp, headers ...string) *http.Response {
	h.t.Helper()
	account, container, key, _ := splitPath(name)
	hash := ring.NewHasher("", "x").Object(account, container, key)
	partition := binary.BigEndian.Uint32(hash[:]) >> (32 - power)
	target := fmt.Sprintf("http://127.0.0.1:%d/d%d/%d%s", h.port, i, partition, (&url.URL{Path: name}).EscapedPath())
	q, err := http.NewRequest(method, target, strings.NewReader(strings.Repeat("b", 10)))
	check(h.t, err)
	if method != http.MethodPut || slices.Contains(headers, "X-Backend-Version-Restore") {
		q.Body, q.ContentLength = nil, 0
	}
	q.Header.Set("X-Timestamp", at.String())
	q.Header.Set("Content-Type", "text/plain")
	for n := 0; n < len(headers); n += 2 {
		q.Header.Set(headers[n], headers[n+1])
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	check(h.t, err)
	_, err = io.Copy(io.Discard, a.Body)
	check(h.t, err)
	check(h.t, a.Body.Close())
	isAbsent := a.StatusCode == http.StatusNotFound && method == http.MethodDelete // and it is stored
	if method != http.MethodHead && a.StatusCode/100 != 2 && !isAbsent {
		h.t.Fatalf("%s %s: %s", method, target, a.Status)
	}
	return a
}

// put writes to all devices.
func (h *host) put(name string, at format.Timestamp, headers ...string) {
	h.t.Helper()
	for i := range replicas {
		if a := h.ask(i, http.MethodPut, name, at, headers...); a.StatusCode != 201 {
			h.t.Fatalf("PUT %s: %s", name, a.Status)
		}
	}
}

// putVersion adds a version to all devices.
func (h *host) putVersion(name string, at format.Timestamp) {
	h.t.Helper()
	h.put(name, at, "X-Backend-Version-Id", at.String())
}

// has checks whether all devices have a name, or a version of it.
func (h *host) has(want bool, name string, headers ...string) {
	h.t.Helper()
	for i := range replicas {
		if got := h.ask(i, http.MethodHead, name, now(), headers...).StatusCode == 200; got != want {
			h.t.Errorf("device %d has %s %v: %v", i, name, headers, got)
		}
	}
}

// days is the timestamp of so long ago.
func days(count float64) format.Timestamp {
	t := now()
	t.Ticks -= uint64(count * 86400 * format.TicksPerSecond)
	return t
}

// pass makes one pass over all devices, or those chosen.
func (h *host) pass(chosen ...int) *Report {
	h.t.Helper()
	l, log := h.lifecycle(chosen...)
	report, err := l.Once(context.Background())
	check(h.t, err)
	h.t.Logf("pass: %+v %s", *report, log)
	return report
}

func (h *host) lifecycle(chosen ...int) (*Lifecycle, *proof.Log) {
	h.t.Helper()
	config, err := conf.Read(filepath.Join(h.directory, "object-server.conf"))
	check(h.t, err)
	log := &proof.Log{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	connections, err := grid.New(grid.Config{Secrets: config.Grid.Secrets, Log: logger, BackoffMin: time.Millisecond})
	check(h.t, err)
	h.t.Cleanup(connections.Close)
	return New(Config{
		Rings: &ring.Files{Directory: h.directory}, Policies: []int{0}, Grid: connections, NodeTimeout: time.Minute,
		Devices: filepath.Join(h.directory, "devices"), Files: vfs.ReadOnly{}, Hasher: ring.NewHasher("", "x"),
		IsOwn: func(d *ring.Device) bool { return len(chosen) == 0 || slices.Contains(chosen, d.ID) },
		Day:   24 * time.Hour, Interval: time.Hour, Concurrency: 4, Logger: logger, ReconCachePath: filepath.Join(h.directory, "recon"),
	}), log
}

// containers is a container server.
type containers struct {
	port int

	mu      sync.Mutex
	headers map[string]map[string]string    // of each container that there is; by device, too, where it differs
	rows    map[string][]string             // names, of listings
	updated []string                        // names and versions of the rows that have come
	held    func(name string) chan struct{} // an UPDATE with the name waits until that is closed; nil: none does
}

func newContainers(t *testing.T, config *conf.Config) *containers {
	c := &containers{headers: map[string]map[string]string{}, rows: map[string][]string{}}
	mux := &grid.Mux{}
	mux.HandleRaw("container.head", c.serve)
	mux.HandleRaw("container.get", c.serve)
	mux.HandleRaw("container.update", c.update)
	g, err := grid.New(grid.Config{Secrets: config.Grid.Secrets, Mux: mux, Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	t.Cleanup(g.Close)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	c.port = s.Listener.Addr().(*net.TCPAddr).Port
	return c
}

// serve answers requests for a container.
func (c *containers) serve(_ context.Context, payload, answer []byte) ([]byte, error) {
	value, _, err := msgp.ReadIntfBytes(payload)
	if err != nil {
		return nil, err
	}
	elements := value.([]any)
	device := elements[0].(string)
	target, err := url.Parse(elements[2].(string))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	headers, ok := c.headers[device+target.Path]
	if !ok {
		headers, ok = c.headers[target.Path]
	}
	status, body := 204, []byte(nil)
	if !ok {
		status = 404
	}
	if _, isListing := target.Query()["format"]; isListing {
		page := []row{}
		for _, name := range c.rows[target.Path] {
			if strings.HasPrefix(name, target.Query().Get("prefix")) && name > target.Query().Get("marker") {
				page = append(page, row{Name: name})
			}
		}
		status = 200
		body, _ = json.Marshal(page)
	}
	answer = msgp.AppendArrayHeader(answer, 3)
	answer = msgp.AppendInt(answer, status)
	answer = msgp.AppendMapStrStr(answer, headers)
	return msgp.AppendBytes(answer, body), nil
}

func (c *containers) update(_ context.Context, payload, answer []byte) ([]byte, error) {
	value, _, err := msgp.ReadIntfBytes(payload)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	for _, one := range value.([]any)[6].([]any) {
		if held == nil {
			break
		}
		if wait := held(one.([]any)[0].(string)); wait != nil {
			<-wait
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range value.([]any)[6].([]any) {
		cells := one.([]any)
		text := fmt.Sprint(cells[0], " ", cells[5])
		if len(cells) > 8 {
			text += fmt.Sprint(" ", cells[8])
		}
		c.updated = append(c.updated, text)
	}
	answer = msgp.AppendArrayHeader(answer, 3)
	answer = msgp.AppendInt(answer, 202)
	answer = msgp.AppendMapStrStr(answer, nil)
	return msgp.AppendBytes(answer, nil), nil
}

// set makes a container with rules; more are other headers.
func (c *containers) set(path string, rules []Rule, more ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	headers := map[string]string{"x-backend-storage-policy-index": "0"}
	if rules != nil {
		headers["x-container-sysmeta-s3api-setting-lifecycle"] = packed(rules)
	}
	for n := 0; n < len(more); n += 2 {
		headers[more[n]] = more[n+1]
	}
	c.headers[path] = headers
}

// taken are the rows that came, each once.
func (c *containers) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]int{}
	for _, text := range c.updated {
		all[text]++
	}
	return slices.Sorted(maps.Keys(all))
}
