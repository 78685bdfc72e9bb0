// SPDX-License-Identifier: Apache-2.0

// The Go side of test/functional/test_grid_interop.py, built by it as a package of the object server.
//
// With -certificate, -key and -ca it speaks TLS.
//
// Without -connect it serves: it prints its port; echo answers with the payload, never not at all, and the stream tee
// sends its data back. At SIGHUP it sends GOAWAY to all, and accepts others. With -connect it makes requests to
// grid_service.py, checks the answers and prints ok. With -load it asks for echo until its input ends.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"martlet/object-server/grid"
	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/certs"
	"martlet/object-server/grid/frame"
	"martlet/object-server/grid/login"
)

func main() {
	secret := flag.String("secret", "none", "")
	checksum := flag.Bool("checksum", false, "")
	connect := flag.String("connect", "", "")
	load := flag.Bool("load", false, "")
	var files certs.Files
	flag.StringVar(&files.Certificate, "certificate", "", "")
	flag.StringVar(&files.Key, "key", "", "")
	flag.StringVar(&files.Authorities, "ca", "", "")
	flag.Parse()
	secrets, err := auth.NewSecrets(*secret)
	check(err)
	mux := &grid.Mux{}
	mux.HandleRaw("echo", func(ctx context.Context, p, a []byte) ([]byte, error) { return append(a, p...), nil })
	mux.HandleRaw("never", func(ctx context.Context, p, a []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, &grid.Error{Code: grid.CodeDeadline}
	})
	mux.HandleStream("tee", func(ctx context.Context, s *grid.Stream, p []byte) error {
		if len(p) > 0 {
			if err := s.Send(p); err != nil {
				return err
			}
		}
		for {
			b, err := s.Receive()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if err := s.Send(bytes.Clone(b)); err != nil {
				return err
			}
		}
	})
	config := grid.Config{Secrets: secrets, Mux: mux, Options: frame.Options{Name: "go", Checksum: *checksum}}
	listen := func(l net.Listener) net.Listener { return l }
	if files.Key != "" {
		store, err := certs.Load(files)
		check(err)
		listen, config.Dial = store.Listen, (&login.Dialer{TLS: store}).DialContext
	}
	g, err := grid.New(config)
	check(err)
	if *connect != "" {
		ask := call
		if *load {
			ask = callOn
		}
		ask(g.Peer(*connect))
		fmt.Println("ok")
		return
	}
	var serving atomic.Pointer[grid.Grid]
	serving.Store(g)
	go func() {
		hangUp := make(chan os.Signal, 1)
		signal.Notify(hangUp, syscall.SIGHUP)
		for range hangUp {
			next, err := grid.New(config)
			check(err)
			check(serving.Swap(next).Drain(context.Background(), "SIGHUP"))
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	check(http.Serve(listen(l), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Load().ServeHTTP(w, r)
	})))
}

// callOn asks for echo until the input ends. It prints a line after the first answer.
func callOn(p *grid.Peer) {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	var wg sync.WaitGroup
	var first sync.Once
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-ended:
					return
				default:
				}
				_, err := p.Do(context.Background(), grid.Request{Name: "echo", Payload: []byte("x")}, nil)
				check(err)
				first.Do(func() { fmt.Println("begun") })
			}
		}()
	}
	wg.Wait()
}

func call(p *grid.Peer) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range 200 {
				q := bytes.Repeat([]byte(fmt.Sprintf("%d/%d ", i, j)), j+1)
				a, err := p.Do(ctx, grid.Request{Name: "echo", Payload: q}, nil)
				check(err)
				if !bytes.Equal(a, q) {
					panic("wrong answer")
				}
			}
		}()
	}
	wg.Wait()
	for name, code := range map[string]uint64{"nix": 1, "bad": 4, "broken": 7} {
		_, err := p.Do(ctx, grid.Request{Name: name}, nil)
		var failed *grid.Error
		if !errors.As(err, &failed) || uint64(failed.Code) != code {
			panic(fmt.Sprintf("%s: %v", name, err))
		}
	}
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := p.Do(short, grid.Request{Name: "never"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		panic(err)
	}
	s, err := p.Open(ctx, "tee", []byte("first"))
	check(err)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	go func() {
		_, err := s.Write(data)
		check(err)
		check(s.CloseSend())
	}()
	got, err := io.ReadAll(s)
	check(err)
	if string(got) != "first"+string(data) {
		panic("wrong data")
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
