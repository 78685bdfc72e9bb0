package updates

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// redirectsMax bounds the chain of redirects that rows follow: a shard may have shards in turn for a while.
const redirectsMax = 8

// stragglerWait is how long a replica of a shard may take longer than most of them. Without it a server that hangs would
// hold up the rows of all servers. It gets the rows by replication.
const stragglerWait = 200 * time.Millisecond

// newStatusError makes the error of an answer. A redirect of rows names their shards in its body; that of a single row,
// which an OpenStack Swift server answers with, in its location.
func newStatusError(status int, location string, body []byte) *StatusError {
	failed := &StatusError{Status: status, Location: location}
	if status != http.StatusMovedPermanently {
		return failed
	}
	var answer struct {
		Redirects []Redirect `json:"redirects"`
	}
	if err := json.Unmarshal(body, &answer); err == nil && len(answer.Redirects) > 0 {
		failed.Redirects = answer.Redirects
		return failed
	}
	path, err := url.PathUnescape(location)
	if err != nil {
		return failed
	}
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	if len(parts) == 3 && parts[0] != "" && parts[1] != "" {
		failed.Redirects = []Redirect{{Account: parts[0], Container: parts[1], Rows: []int{0}}}
	}
	return failed
}

// redirectsOf returns the redirects of an answer; nil if err is none.
func redirectsOf(err error) []Redirect {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Redirects
	}
	return nil
}

// follow sends rows to the shards that they belong into: to all replicas of each, of which most must take them. Rows that
// are in no redirect are durable where they were sent.
func (s *sender) follow(ctx context.Context, target Target, rows []Row, redirects []Redirect, depth int) []error {
	errs := make([]error, len(rows))
	for _, redirect := range redirects {
		shard := Target{Account: redirect.Account, Container: redirect.Container, PolicyIndex: target.PolicyIndex}
		var places []int
		var moved []Row
		for _, place := range redirect.Rows {
			if place >= 0 && place < len(rows) {
				places, moved = append(places, place), append(moved, rows[place])
			}
		}
		for i, err := range s.sendToShard(ctx, shard, moved, depth+1) {
			if err != nil {
				errs[places[i]] = err
			}
		}
	}
	return errs
}

// sendToShard sends rows to all replicas of a shard. A row that most of them took has no error; nil: all rows.
func (s *sender) sendToShard(ctx context.Context, shard Target, rows []Row, depth int) []error {
	if len(rows) == 0 {
		return nil
	}
	errs := make([]error, len(rows))
	fail := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if depth > redirectsMax || s.placement == nil {
		return fail(&StatusError{Status: http.StatusMovedPermanently, Location: shard.path()})
	}
	replicas, err := s.placement.Primaries(shard)
	if err != nil {
		return fail(err)
	}
	outcomes := make(chan []error, len(replicas))
	for _, replica := range replicas {
		go func() { outcomes <- s.sendOn(ctx, replica, rows, depth) }()
	}
	taken := make([]int, len(rows))
	var late <-chan time.Time // once most replicas have all rows, the others are waited for a while
	for range replicas {
		select {
		case outcome := <-outcomes:
			for i := range rows {
				if outcome == nil || outcome[i] == nil {
					taken[i]++
				} else {
					errs[i] = outcome[i]
				}
			}
		case <-late:
			return nil
		}
		if late == nil && slices.Min(taken)*2 > len(replicas) {
			late = time.After(stragglerWait)
		}
	}
	for i := range rows {
		if taken[i]*2 > len(replicas) {
			errs[i] = nil
		} else if !isAnswer(errs[i]) {
			// It says nothing about the server that redirected.
			errs[i] = &StatusError{Status: http.StatusServiceUnavailable, Location: shard.path()}
		}
	}
	return errs
}
