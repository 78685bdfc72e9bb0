package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"

	"martlet/object-server/grid"
	"martlet/object-server/ring"
)

// remote is a device of an object or container server, and the partition that is meant.
type remote struct {
	peer      *grid.Peer
	address   string // host:port
	device    string
	partition uint32
	timeout   time.Duration
}

func (l *Lifecycle) remote(d *ring.Device, partition uint32) *remote {
	address := net.JoinHostPort(d.IP, strconv.Itoa(d.Port))
	return &remote{l.config.Grid.Peer(address), address, d.Name, partition, l.config.NodeTimeout}
}

func (r *remote) String() string { return r.address + "/" + r.device }

// answer is that of a server; the names of headers are in lower case.
type answer struct {
	status  int
	headers map[string]string
	body    []byte
}

func (a *answer) isSuccess() bool { return a.status/100 == 2 }

// request is one of the backend protocol, over the grid: doc/formats/grid-messages.md.
type request struct {
	name    string            // e.g. object.delete
	path    string            // "/account/container/object", not quoted
	query   string            // quoted
	headers map[string]string // of ASCII
	body    []byte
}

// ask sends a request. It is sent again if the connection is lost: all of them may be repeated.
func (r *remote) ask(ctx context.Context, q *request) (*answer, error) {
	target := (&url.URL{Path: q.path}).EscapedPath()
	if q.query != "" {
		target += "?" + q.query
	}
	b := msgp.AppendArrayHeader(nil, 5)
	b = msgp.AppendString(b, r.device)
	b = msgp.AppendUint32(b, r.partition)
	b = msgp.AppendString(b, target)
	b = msgp.AppendMapHeader(b, uint32(len(q.headers)))
	for name, value := range q.headers {
		b = msgp.AppendString(b, name)
		b = msgp.AppendString(b, value)
	}
	b = msgp.AppendBytes(b, q.body)
	message := grid.Request{Name: q.name, Payload: b, Timeout: r.timeout}
	payload, err := r.peer.Do(ctx, message, nil)
	if errors.Is(err, grid.ErrLost) {
		message.Resent = true
		payload, err = r.peer.Do(ctx, message, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("lifecycle: %s %s: %w", r, q.name, err)
	}
	a, err := parseAnswer(payload)
	if err != nil {
		return nil, fmt.Errorf("lifecycle: the answer of %s to %s: %w", r, q.name, err)
	}
	return a, nil
}

func parseAnswer(b []byte) (*answer, error) {
	count, b, err := msgp.ReadArrayHeaderBytes(b)
	if err == nil && count < 3 {
		err = msgp.ArrayError{Wanted: 3, Got: count}
	}
	if err != nil {
		return nil, err
	}
	a := &answer{headers: map[string]string{}}
	if a.status, b, err = msgp.ReadIntBytes(b); err != nil {
		return nil, err
	}
	headers, b, err := msgp.ReadMapHeaderBytes(b)
	for ; headers > 0 && err == nil; headers-- {
		var name, value string
		if name, b, err = msgp.ReadStringBytes(b); err == nil {
			value, b, err = msgp.ReadStringBytes(b)
			a.headers[name] = value
		}
	}
	if err == nil && msgp.NextType(b) == msgp.BinType {
		a.body, _, err = msgp.ReadBytesBytes(b, nil)
	}
	return a, err
}

// everywhere sends a request to each of several devices at once. The error of one that does not answer is in its place.
func everywhere(ctx context.Context, all []*remote, q func(i int) *request) ([]*answer, []error) {
	answers, failed := make([]*answer, len(all)), make([]error, len(all))
	done := make(chan struct{})
	for i, r := range all {
		go func() {
			answers[i], failed[i] = r.ask(ctx, q(i))
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
	return answers, failed
}

func splitPath(name string) (account, container, key string, ok bool) {
	account, rest, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if !ok {
		return "", "", "", false
	}
	container, key, ok = strings.Cut(rest, "/")
	return account, container, key, ok
}
