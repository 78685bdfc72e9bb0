package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/server/devices"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// benchServer serves a real device; its address is returned.
func benchServer(b *testing.B) string {
	b.Helper()
	config := testConfig(b)
	config.LogRequests = false
	if err := os.Mkdir(filepath.Join(config.Devices, "sda"), 0o755); err != nil {
		b.Fatal(err)
	}
	s := newServer(config, nil, slog.New(slog.DiscardHandler), "bench")
	s.use(func(path string) (devices.Store, *updates.Pending, error) {
		opened, err := device.Open(vfs.OS{}, path, config.Device)
		if err != nil {
			return nil, nil, err
		}
		pending, err := s.updater.Attach(vfs.OS{}, path)
		return devices.NewStore(opened, io.NopCloser(nil)), pending, err
	}, 0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve(listener)
	b.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return listener.Addr().String()
}

// benchHeaders are those that the proxy sends, but for the container's.
func benchHeaders(method string, number int64) []string {
	headers := []string{"X-Backend-Storage-Policy-Index", "0", "X-Trans-Id", "tx0123456789abcdef-0123456789", "User-Agent", "proxy-server 1234"}
	if method != http.MethodPut {
		return headers
	}
	return append(headers, "X-Timestamp", "1700000"+strconv.FormatInt(100+number/100_000, 10)+"."+strconv.FormatInt(100_000+number%100_000, 10)[1:],
		"Content-Type", "application/octet-stream", "X-Object-Meta-Mtime", "1700000000.0", "X-Object-Meta-Colour", "blue")
}

// BenchmarkObjects compares requests of 4 KiB over one connection of the grid and over connections of HTTP, 32 at a time.
func BenchmarkObjects(b *testing.B) {
	body := strings.Repeat("b", 4096)
	for _, method := range []string{"PUT", "GET", "HEAD"} {
		content := ""
		if method == "PUT" {
			content = body
		}
		b.Run(method+"/grid", func(b *testing.B) {
			address := benchServer(b)
			peer := newPeer(b, address, "none")
			name, number := "object."+strings.ToLower(method), atomic.Int64{}
			if got := ask(b, peer, "PUT", objectPath, body, benchHeaders("PUT", 0)...); got.status != 201 {
				b.Fatal(got)
			}
			fixed := gridPayload(objectPath, content, benchHeaders(method, 0)...)
			runBench(b, func() (func() error, func()) {
				answer := make([]byte, 0, 16<<10)
				return func() error {
					payload := fixed
					if method == "PUT" {
						payload = gridPayload(objectPath, content, benchHeaders(method, number.Add(1))...)
					}
					_, err := peer.Do(context.Background(), grid.Request{Name: name, Payload: payload}, answer[:0])
					return err
				}, func() {}
			})
		})
		b.Run(method+"/http", func(b *testing.B) {
			address := benchServer(b)
			number := atomic.Int64{}
			if got := ask(b, newPeer(b, address, "none"), "PUT", objectPath, body, benchHeaders("PUT", 0)...); got.status != 201 {
				b.Fatal(got)
			}
			runBench(b, func() (func() error, func()) {
				transport := &http.Transport{DisableCompression: true}
				return func() error {
					request, err := http.NewRequest(method, "http://"+address+objectPath, strings.NewReader(content))
					if err != nil {
						return err
					}
					headers := benchHeaders(method, number.Add(1))
					for i := 0; i < len(headers); i += 2 {
						request.Header[headers[i]] = headers[i+1 : i+2]
					}
					response, err := transport.RoundTrip(request)
					if err != nil {
						return err
					}
					_, err = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					return err
				}, transport.CloseIdleConnections
			})
		})
	}
}

// runBench runs requests of 32 clients; each has its own.
func runBench(b *testing.B, newClient func() (request func() error, end func())) {
	b.ReportAllocs()
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		request, end := newClient()
		defer end()
		for pb.Next() {
			if err := request(); err != nil {
				panic(err)
			}
		}
	})
}
