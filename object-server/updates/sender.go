package updates

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// drainMax bounds how much of an answer is read to be able to use the connection again, in bytes.
const drainMax = 64 << 10

// StatusError is the answer of a container server that did not take an update.
type StatusError struct {
	Status    int
	Location  string     // of a redirect to a shard
	Redirects []Redirect // rows that belong into shards; the server has made the others durable
}

// Redirect names the shard that rows belong into. Its JSON is what a container server answers to an UPDATE.
type Redirect struct {
	Account   string `json:"account"`
	Container string `json:"container"`
	Rows      []int  `json:"rows"` // their places in the request
}

func (e *StatusError) Error() string {
	if e.Location != "" {
		return fmt.Sprintf("container server answered %d (redirect to %s)", e.Status, e.Location)
	}
	return fmt.Sprintf("container server answered %d", e.Status)
}

// sender speaks to container servers. It keeps connections open and is safe for concurrent use.
type sender struct {
	grid        *gridSender // nil: HTTP only
	placement   Placement   // finds the servers of a shard
	client      *http.Client
	nodeTimeout time.Duration // for one request, once connected
	userAgent   string
}

func newSender(options *Options) *sender {
	connTimeout, nodeTimeout := options.ConnTimeout, options.NodeTimeout
	dial := options.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connTimeout}).DialContext
	}
	transport := &http.Transport{
		DialContext:           dial,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       60 * time.Second,
		ResponseHeaderTimeout: nodeTimeout,
		DisableCompression:    true,
	}
	s := &sender{
		// A redirect names a shard; the row stays pending and is never sent along by itself.
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		placement:   options.Placement,
		nodeTimeout: connTimeout + nodeTimeout,
		userAgent:   "object-server " + strconv.Itoa(os.Getpid()),
	}
	if options.Grid != nil {
		s.grid = newGridSender(options.Grid, s.nodeTimeout)
	}
	return s
}

// send delivers rows to target in one UPDATE, over the grid if the server has one. To a server that refuses the UPDATE
// (it may be old, or dislike one row) they go one by one. Rows that belong into shards go there. It returns an error per
// row, all nil when errs is nil.
func (s *sender) send(ctx context.Context, target Target, rows []Row) (errs []error) {
	return s.sendOn(ctx, target, rows, 0)
}

// sendOn sends rows that were redirected depth times already.
func (s *sender) sendOn(ctx context.Context, target Target, rows []Row, depth int) (errs []error) {
	err := errPlain
	if s.grid != nil {
		err = s.grid.update(ctx, target, rows)
	}
	if errors.Is(err, errPlain) {
		err = s.update(ctx, target, rows)
	}
	if err == nil {
		return nil
	}
	if redirects := redirectsOf(err); redirects != nil {
		return s.follow(ctx, target, rows, redirects, depth)
	}
	if refusesBatch(err) {
		return s.sendSingly(ctx, target, rows, depth)
	}
	errs = make([]error, len(rows))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// refusesBatch tells a server that knows no UPDATE, finds it too large, or refuses all because of one row.
func refusesBatch(err error) bool {
	var status *StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}

func (s *sender) sendSingly(ctx context.Context, target Target, rows []Row, depth int) []error {
	errs := make([]error, len(rows))
	for i, row := range rows {
		errs[i] = s.single(ctx, target, row)
		if redirects := redirectsOf(errs[i]); redirects != nil {
			errs[i] = nil
			if failed := s.follow(ctx, target, rows[i:i+1], redirects, depth); failed != nil {
				errs[i] = failed[0]
			}
		}
		if errs[i] != nil && !isAnswer(errs[i]) {
			for j := i + 1; j < len(rows); j++ { // the server is gone; do not wait for it row by row
				errs[j] = errs[i]
			}
			break
		}
	}
	return errs
}

func (s *sender) update(ctx context.Context, target Target, rows []Row) error {
	body, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	header := http.Header{
		"X-Timestamp":                    {newest(rows)},
		"X-Backend-Storage-Policy-Index": {target.policy()},
		"X-Backend-Accept-Redirect":      {"true"},
		"Content-Type":                   {"application/json"},
	}
	return s.do(ctx, "UPDATE", target.Host, target.path(), header, body)
}

func (s *sender) single(ctx context.Context, target Target, row Row) error {
	header := http.Header{
		"X-Timestamp":                      {row.CreatedAt},
		"X-Backend-Storage-Policy-Index":   {target.policy()},
		"X-Backend-Accept-Redirect":        {"true"},
		"X-Backend-Accept-Quoted-Location": {"true"},
	}
	if row.VersionID != "" {
		header["X-Backend-Version-Id"] = []string{row.VersionID}
	}
	path := target.path() + "/" + row.Name
	if row.Deleted != 0 {
		return s.do(ctx, http.MethodDelete, target.Host, path, header, nil)
	}
	header["X-Size"] = []string{strconv.FormatInt(row.Size, 10)}
	header["X-Content-Type"] = []string{row.ContentType}
	header["X-Etag"] = []string{row.ETag}
	if row.ContentTypeTimestamp != nil {
		header["X-Content-Type-Timestamp"] = []string{*row.ContentTypeTimestamp}
	}
	if row.MetaTimestamp != nil {
		header["X-Meta-Timestamp"] = []string{*row.MetaTimestamp}
	}
	return s.do(ctx, http.MethodPut, target.Host, path, header, nil)
}

// do sends one request; nil is a 2xx, a StatusError any other answer.
func (s *sender) do(ctx context.Context, method, host, path string, header http.Header, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.nodeTimeout)
	defer cancel()
	address := url.URL{Scheme: "http", Host: host, Path: path}
	request, err := http.NewRequestWithContext(ctx, method, address.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	header["User-Agent"] = []string{s.userAgent}
	// Present but empty, it is not sent; it tells net/http that the request may be repeated when an idle connection
	// turns out to be closed. An update may arrive twice: rows are merged by timestamp.
	header["X-Idempotency-Key"] = nil
	request.Header = header
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, drainMax))
	if err != nil {
		return err
	}
	if response.StatusCode/100 == 2 {
		return nil
	}
	return newStatusError(response.StatusCode, response.Header.Get("Location"), answer)
}
