package server

import (
	"context"
	"strings"
	"testing"

	"martlet/object-server/grid"
	"martlet/object-server/proof"
)

const goldenDir = "../../test/golden/grid/"

// goldenMessage is a request and its answer, as the payloads of both are read.
type goldenMessage struct {
	Name      string            `json:"name"`
	Device    string            `json:"device"`
	Partition int               `json:"partition"`
	Path      string            `json:"path"`
	Headers   []string          `json:"headers"` // names and values, in the order of the payload, as on the wire
	Body      string            `json:"body"`
	Status    int               `json:"status"`
	Answer    map[string]string `json:"answer_headers"`
	AnswerTo  string            `json:"answer_body"`
}

// TestGoldenObjectMessages has an object put and got; Python writes the same requests and reads the same answers.
func TestGoldenObjectMessages(t *testing.T) {
	f := newFixture(t)
	peer := newPeer(t, f.address, "none")
	list := []goldenMessage{
		{
			Name: "object_put", Body: "hello", Headers: []string{
				"X-Timestamp", "1700000000.12345", "X-Backend-Storage-Policy-Index", "1", "Content-Type", "text/plain",
				"Etag", "5d41402abc4b2a76b9719d911017c592", "X-Object-Meta-Colour", "bl\u00fc", "X-Trans-Id", "tx0123456789",
			},
		},
		{Name: "object_get", Headers: []string{"X-Backend-Storage-Policy-Index", "1", "X-Trans-Id", "tx0123456789"}},
	}
	for i := range list {
		m := &list[i]
		m.Device, m.Partition, m.Path = "sda", 7, "/AUTH_a/c/o%20%C3%BC?multipart-manifest=get"
		request := gridPayload("/sda/7"+m.Path, m.Body, bytesOf(m.Headers)...)
		name := map[string]string{"object_put": "object.put", "object_get": "object.get"}[m.Name]
		payload, err := peer.Do(context.Background(), grid.Request{Name: name, Payload: request}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := readAnswer(t, payload)
		m.Status, m.AnswerTo, m.Answer = got.status, got.body, map[string]string{}
		for name, values := range got.header {
			m.Answer[strings.ToLower(name)] = latin1(values[0])
		}
		proof.Golden(t, goldenDir+m.Name+"_request.bin", request)
		proof.Golden(t, goldenDir+m.Name+"_answer.bin", payload)
	}
	proof.GoldenJSON(t, goldenDir+"object_messages.json", list)
}

// bytesOf turns characters on the wire into bytes.
func bytesOf(texts []string) (all []string) {
	for _, text := range texts {
		var b []byte
		for _, c := range text {
			b = append(b, byte(c))
		}
		all = append(all, string(b))
	}
	return all
}
