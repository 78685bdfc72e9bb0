package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/proof"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "martlet-object-server")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "martlet-object-server")
	build := exec.Command("go", "build", "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("building: %v\n%s", err, output))
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// home is a directory with a configuration and one device.
type home struct {
	t    *testing.T
	dir  string
	conf string
}

func newHome(t *testing.T, port int) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir()}
	h.conf = filepath.Join(h.dir, "object-server.conf")
	conf := fmt.Sprintf("[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = %d\ndevices = %s/devices\nmount_check = false\n"+
		"swift_dir = %s\ncontainer_update_timeout = 0.2\n[app:object-server]\nuse = egg:martlet#object\n", port, h.dir, h.dir)
	for path, content := range map[string]string{
		"object-server.conf": conf, "martlet.conf": "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = s\n",
	} {
		if err := os.WriteFile(filepath.Join(h.dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(h.dir, "devices", "sda"), 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

// process is a running server.
type process struct {
	*exec.Cmd
	t    *testing.T
	base string
	log  proof.Log
}

func (h *home) start() *process {
	h.t.Helper()
	p := &process{Cmd: exec.Command(binary, "serve", h.conf), t: h.t}
	p.Stderr = &p.log
	stdout, err := p.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.Wait()
		h.t.Fatalf("no address: %v\n%s", err, p.log.String())
	}
	p.base = "http://" + strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	return p
}

func (p *process) do(method, path, body string, headers ...string) (int, string) {
	p.t.Helper()
	request, err := http.NewRequest(method, p.base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func (p *process) put(path, body, timestamp string, headers ...string) {
	p.t.Helper()
	headers = append(headers, "X-Timestamp", timestamp, "Content-Type", "text/plain")
	if status, text := p.do("PUT", path, body, headers...); status != http.StatusCreated {
		p.t.Fatalf("PUT %s: %d %s", path, status, text)
	}
}

func (p *process) expectBody(path, want string) {
	p.t.Helper()
	if status, body := p.do("GET", path, ""); status != 200 || body != want {
		p.t.Errorf("GET %s: %d, %d bytes, want %d", path, status, len(body), len(want))
	}
}

func TestAcknowledgedObjectsSurviveKill(t *testing.T) {
	h := newHome(t, 0)
	p := h.start()
	bodies := map[string]string{
		"/sda/1/a/c/small": "hello", "/sda/1/a/c/empty": "", "/sda/2/a/c/large": strings.Repeat("0123456789", 300_000),
	}
	for path, body := range bodies {
		p.put(path, body, "1700000000.00000")
	}
	p.put("/sda/1/a/c/gone", "x", "1700000000.00000")
	if status, _ := p.do("DELETE", "/sda/1/a/c/gone", "", "X-Timestamp", "1700000001.00000"); status != 204 {
		t.Errorf("DELETE: %d", status)
	}
	if status, _ := p.do("POST", "/sda/1/a/c/small", "", "X-Timestamp", "1700000002.00000"); status != 202 {
		t.Errorf("POST: %d", status)
	}
	for range 2 {
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.Wait()
		p = h.start()
		for path, body := range bodies {
			p.expectBody(path, body)
		}
		if status, _ := p.do("GET", "/sda/1/a/c/gone", ""); status != 404 {
			t.Errorf("the deleted object is back: %d", status)
		}
		if status, _ := p.do("PUT", "/sda/1/a/c/gone", "x", "X-Timestamp", "1700000000.50000", "Content-Type", "a/b"); status != 409 {
			t.Errorf("PUT older than the tombstone: %d", status)
		}
	}
}

func TestPendingUpdatesSurviveKill(t *testing.T) {
	var down atomic.Bool
	var rows atomic.Int64
	down.Store(true)
	containers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		rows.Add(int64(strings.Count(string(body), `"name"`)))
		w.WriteHeader(http.StatusAccepted)
	}))
	defer containers.Close()
	h := newHome(t, 0)
	p := h.start()
	for i := range 3 {
		p.put(fmt.Sprintf("/sda/1/a/c/o%d", i), "x", "1700000000.00000", "X-Container-Partition", "5",
			"X-Container-Host", containers.Listener.Addr().String(), "X-Container-Device", "sdb")
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	down.Store(false)
	p = h.start()
	for deadline := time.Now().Add(time.Minute); rows.Load() < 3; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d rows arrived\n%s", rows.Load(), p.log.String())
		}
	}
}

func TestSignals(t *testing.T) {
	patient := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	for _, stop := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		h := newHome(t, 0)
		p := h.start()
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		p.put("/sda/1/a/c/o", "x", "1700000000.00000")
		// A request under way when the signal comes is finished.
		reader, writer := io.Pipe()
		answered := make(chan int, 1)
		go func() {
			request, _ := http.NewRequest("PUT", p.base+"/sda/1/a/c/slow", reader)
			request.Header.Set("X-Timestamp", "1700000000.00000")
			request.Header.Set("Content-Type", "a/b")
			request.Header.Set("Expect", "100-continue") // so that the server is at it once the body is taken
			response, err := patient.Do(request)
			if err != nil {
				answered <- 0
				return
			}
			response.Body.Close()
			answered <- response.StatusCode
		}()
		if _, err := io.WriteString(writer, "half"); err != nil {
			t.Fatal(err)
		}
		if err := p.Process.Signal(stop); err != nil {
			t.Fatal(err)
		}
		for { // until it accepts no more
			connection, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
			if err != nil {
				break
			}
			connection.Close()
			time.Sleep(time.Millisecond)
		}
		if _, err := io.WriteString(writer, " and half"); err != nil {
			t.Fatal(err)
		}
		writer.Close()
		if status := <-answered; status != 201 {
			t.Errorf("%v: the request under way got %d", stop, status)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", stop, err, p.log.String())
		}
		h.start().expectBody("/sda/1/a/c/slow", "half and half")
	}
}

func TestStartErrorsAreOneSentence(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := newHome(t, listener.Addr().(*net.TCPAddr).Port)
	missing := newHome(t, 0)
	if err := os.RemoveAll(filepath.Join(missing.dir, "devices")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		conf, part string
	}{
		{taken.conf, "is in use by another process"},
		{missing.conf, "the devices directory cannot be read"},
		{"/nonexistent.conf", "no such file"},
	} {
		var stderr bytes.Buffer
		command := exec.Command(binary, c.conf)
		command.Stderr = &stderr
		command.Run()
		if status := command.ProcessState.ExitCode(); status != 1 {
			t.Errorf("%s: exit status %d", c.part, status)
		}
		if text := stderr.String(); !strings.Contains(text, c.part) || strings.Count(text, "\n") != 1 {
			t.Errorf("got %q, want %q", text, c.part)
		}
	}
}

func TestEachThreadHasTheTimerSlack(t *testing.T) {
	p := newHome(t, 0).start()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.Process.Pid))
	if err != nil || len(tasks) < 3 {
		t.Fatalf("threads %v: %v", tasks, err)
	}
	for _, task := range tasks {
		slack, err := os.ReadFile("/proc/" + task.Name() + "/timerslack_ns")
		if errors.Is(err, os.ErrPermission) {
			t.Skip("only a process with CAP_SYS_NICE sees it")
		}
		if want := fmt.Sprintln(timerSlack.Nanoseconds()); string(slack) != want {
			t.Errorf("a thread has %q (%v), not %q", slack, err, want)
		}
	}
}

func TestTwoServersDoNotShareADevice(t *testing.T) {
	h := newHome(t, 0)
	first, second := h.start(), h.start()
	first.put("/sda/1/a/c/o", "x", "1700000000.00000")
	if status, _ := second.do("GET", "/sda/1/a/c/o", ""); status != 507 {
		t.Errorf("the second server answers %d", status)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		arguments []string
		status    int
		part      string
	}{
		{[]string{"--help"}, 0, "examples:"},
		{[]string{"--version"}, 0, "martlet-object-server "},
		{[]string{"--print-options"}, 0, "[DEFAULT] bind_port = 6200\n"},
		{nil, 2, "usage:"},
		{[]string{"--unknown"}, 2, "usage:"},
		{[]string{"serve"}, 2, "usage:"},
		{[]string{""}, 1, "martlet-object-server: "},
		{[]string{"a", "b"}, 2, "usage:"},
	} {
		var output bytes.Buffer
		if status := run(c.arguments, &output, &output); status != c.status || !strings.Contains(output.String(), c.part) {
			t.Errorf("%v: %d %q", c.arguments, status, output.String())
		}
	}
}
