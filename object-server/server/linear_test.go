package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"martlet/object-server/bundle/format"
	"martlet/object-server/grid"
	"martlet/object-server/proof"
	"martlet/object-server/server/message"
)

// asked is a request for one object.
type asked struct {
	name, method string
	ticks        uint64
}

// told is what the answer to it says.
type told struct {
	status int
	at     uint64 // X-Backend-Timestamp
	body   string
}

// content is the object on the server: the newest timestamp wins, in any order of arrival.
type content struct {
	ticks, meta uint64 // of the data, or of the delete; of the metadata
	isDeleted   bool
}

func (c content) isThere() bool { return c.ticks != 0 && !c.isDeleted }

// bodyAt is the object that a PUT stores: by its length it may be in the answer to object.get, or left out there.
func bodyAt(ticks uint64) string {
	text := strconv.FormatUint(ticks, 10)
	if ticks%8 == 0 {
		return strings.Repeat(text, bufferBytes/len(text)+1)
	}
	return text
}

// apply returns the answer to a request, and the object after it.
func (a asked) apply(c content) (told, content) {
	switch {
	case a.method == "GET" && c.isThere():
		return told{200, c.meta, bodyAt(c.ticks)}, c
	case a.method == "GET", a.method == "POST" && !c.isThere():
		return told{status: 404, at: c.ticks}, c
	case a.method == "POST" && a.ticks == c.meta && c.meta != c.ticks:
		return told{status: 202}, c // all POSTs of a time are the same
	case a.method == "POST" && a.ticks <= c.meta:
		return told{status: 409, at: c.meta}, c
	case a.method == "POST":
		return told{status: 202}, content{ticks: c.ticks, meta: a.ticks}
	case a.ticks <= c.ticks && a.method == "DELETE" && c.isDeleted:
		return told{status: 404, at: c.ticks}, c
	case a.ticks == c.ticks && a.method == "PUT" && c.isThere():
		return told{status: 201}, c // all PUTs of a time are the same
	case a.ticks <= c.ticks:
		return told{status: 409, at: c.ticks}, c
	case a.method == "DELETE" && c.isThere():
		return told{status: 204, at: a.ticks}, content{ticks: a.ticks, isDeleted: true}
	case a.method == "DELETE":
		return told{status: 404, at: a.ticks}, content{ticks: a.ticks, isDeleted: true}
	case c.isThere():
		return told{status: 201}, content{ticks: a.ticks, meta: max(a.ticks, c.meta)}
	}
	return told{status: 201}, content{ticks: a.ticks, meta: a.ticks}
}

var objectModel = porcupine.Model{
	Partition: proof.ByName(func(request any) string { return request.(asked).name }),
	Init:      func() any { return content{} },
	Step: func(state, input, output any) (bool, any) {
		answer, next := input.(asked).apply(state.(content))
		return answer == output.(told), next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %.80v", input, output) },
}

// way sends requests to a server.
type way func(a asked) (told, error)

const linearTicks = 170000000000000 // 1700000000.00000

func timestampText(ticks uint64) string { return format.Timestamp{Ticks: ticks}.String() }

func ticksOf(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	timestamp, err := format.ParseTimestamp(text)
	return timestamp.Ticks, err
}

// overHTTP returns the way of plain HTTP.
func overHTTP(address string) way {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	return func(a asked) (answer told, err error) {
		var body io.Reader
		if a.method == "PUT" {
			body = strings.NewReader(bodyAt(a.ticks))
		}
		r, err := http.NewRequest(a.method, "http://"+address+"/sda/7/AUTH_a/c/"+a.name, body)
		if err != nil {
			return answer, err
		}
		r.Header["X-Timestamp"] = []string{timestampText(a.ticks)}
		r.Header["Content-Type"] = []string{"text/plain"}
		if a.method == "POST" {
			delete(r.Header, "Content-Type")
		}
		response, err := client.Do(r)
		if err != nil {
			return answer, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return answer, err
		}
		return newTold(response.StatusCode, response.Header.Get(timestampHeader), text)
	}
}

// overGrid returns the way of the grid: large objects go over HTTP, as those of the proxy do.
func overGrid(t *testing.T, address string) way {
	peer, large := newPeer(t, address, "none"), overHTTP(address)
	return func(a asked) (told, error) {
		headers, body := []string{"X-Timestamp", timestampText(a.ticks)}, ""
		if a.method == "PUT" {
			headers, body = append(headers, "Content-Type", "text/plain"), bodyAt(a.ticks)
		}
		if len(body) > message.BodyMax {
			return large(a)
		}
		payload, err := peer.Do(context.Background(), grid.Request{
			Name: "object." + strings.ToLower(a.method), Payload: gridPayload("/sda/7/AUTH_a/c/"+a.name, body, headers...),
			Timeout: time.Minute,
		}, nil)
		if err != nil {
			return told{}, err
		}
		got := readAnswer(t, payload)
		if got.isLeftOut {
			return large(a)
		}
		return newTold(got.status, got.header.Get(timestampHeader), []byte(got.body))
	}
}

// newTold keeps what the model knows of an answer.
func newTold(status int, at string, body []byte) (answer told, err error) {
	answer.status = status
	if status == http.StatusOK {
		answer.body = string(body)
	}
	answer.at, err = ticksOf(at)
	return answer, err
}

// linearClients send requests to a few objects at once, each by one of the ways.
func linearClients(ways []way, seed uint64) ([]porcupine.Operation, error) {
	var clock atomic.Uint64
	clock.Store(linearTicks)
	draw := func(rng *rand.Rand) asked {
		return asked{
			name:   fmt.Sprint(seed, "-", rng.IntN(3)),
			method: []string{"GET", "GET", "PUT", "POST", "DELETE"}[rng.IntN(5)], ticks: clock.Add(1),
		}
	}
	send := func(rng *rand.Rand, a asked) (told, error) { return ways[rng.IntN(len(ways))](a) }
	return proof.Clients(seed, 8, 40, draw, send)
}

// realServer is a server with one device in a directory, and its address.
func realServer(t *testing.T) string {
	t.Helper()
	config := testConfig(t)
	if err := os.Mkdir(filepath.Join(config.Devices, "sda"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newPatientServer(config)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return listener.Addr().String()
}

// What concurrent clients hear about an object can be put in an order in which each request happened at one moment between
// its start and its end, whatever way each request took.
func TestLinearizable(t *testing.T) {
	address := realServer(t)
	ways := []way{overHTTP(address), overGrid(t, address)}
	proof.Linearizable(t, objectModel, 6, func(seed uint64) ([]porcupine.Operation, error) { return linearClients(ways, seed) })
}

// The check finds an answer that another request should have had.
func TestLinearizableFindsFaults(t *testing.T) {
	run := func(changed func(told) told) porcupine.CheckResult {
		c, all := content{}, []porcupine.Operation{}
		for i, method := range []string{"PUT", "GET", "POST", "GET", "DELETE", "GET"} {
			a := asked{"o", method, uint64(i + 1)}
			var answer told
			answer, c = a.apply(c)
			if i == 3 {
				answer = changed(answer)
			}
			all = append(all, porcupine.Operation{Input: a, Call: int64(2 * i), Output: answer, Return: int64(2*i + 1)})
		}
		return porcupine.CheckOperationsTimeout(objectModel, all, time.Minute)
	}
	if got := run(func(answer told) told { return answer }); got != porcupine.Ok {
		t.Error("no fault:", got)
	}
	for what, change := range map[string]func(told) told{
		"the body":      func(a told) told { a.body = string(bytes.ToUpper([]byte(a.body + "x"))); return a },
		"the timestamp": func(a told) told { a.at--; return a },
		"the status":    func(told) told { return told{status: 404} },
	} {
		if got := run(change); got != porcupine.Illegal {
			t.Errorf("%s: %s", what, got)
		}
	}
}
