package updates

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"martlet/object-server/grid"
)

// plainPause is how long a server without a grid is asked over HTTP alone.
const plainPause = time.Minute

// idleMax is how long a server that gets no rows keeps its connection: it may have left the ring.
const idleMax = time.Hour

// errPlain says that HTTP has to carry rows. The server may have merged them already; a second time does no harm.
var errPlain = errors.New("not over the grid")

// gridSender sends rows over the grid. It is safe for concurrent use.
type gridSender struct {
	grid    *grid.Grid
	timeout time.Duration // for one request, with the connection

	mu      sync.Mutex
	plain   map[string]time.Time // by host: until then it is taken to have no grid
	used    map[string]time.Time // by host: when rows were sent
	sweptAt time.Time            // when used was last looked through
}

func newGridSender(g *grid.Grid, timeout time.Duration) *gridSender {
	return &gridSender{grid: g, timeout: timeout, plain: map[string]time.Time{}, used: map[string]time.Time{}}
}

// update sends rows in one request; in several, if the request or its answer is too large. Errors: errPlain if HTTP has to
// carry them, StatusError for any answer but 2xx, and those of grid.Peer.
func (s *gridSender) update(ctx context.Context, target Target, rows []Row) error {
	if s.isPlain(target.Host) {
		return errPlain
	}
	payload, ok := appendUpdate(nil, target, rows)
	if !ok {
		return errPlain
	}
	answer, err := s.ask(ctx, target.Host, payload)
	switch {
	case errors.Is(err, grid.ErrNoGrid), hasCode(err, grid.CodeUnknownName):
		s.mu.Lock()
		s.plain[target.Host] = time.Now().Add(plainPause)
		s.mu.Unlock()
		return errPlain
	case hasCode(err, grid.CodeTooLarge) && len(rows) > 1:
		half := len(rows) / 2
		if err := s.update(ctx, target, rows[:half]); err != nil {
			return err // rows that were delivered may be delivered again
		}
		return s.update(ctx, target, rows[half:])
	case hasCode(err, grid.CodeTooLarge), hasCode(err, grid.CodeBadPayload):
		return errPlain // HTTP finds out which row it is
	case err != nil:
		return err
	}
	status, location, body, err := readAnswer(answer)
	if err != nil {
		return &grid.Error{Code: grid.CodeFailed, Reason: fmt.Sprintf("the answer of the container server: %v", err)}
	}
	if status/100 == 2 {
		return nil
	}
	return newStatusError(status, location, body)
}

// ask sends a request, and once more if its connection was lost. Rows are merged, so they may arrive twice.
func (s *gridSender) ask(ctx context.Context, host string, payload []byte) ([]byte, error) {
	s.note(host, time.Now())
	peer := s.grid.Peer(host)
	request := grid.Request{Name: updateName, Payload: payload, Timeout: s.timeout}
	answer, err := peer.Do(ctx, request, nil)
	if errors.Is(err, grid.ErrLost) {
		request.Resent = true
		return peer.Do(ctx, request, nil)
	}
	return answer, err
}

// note says that rows go to a host now, and forgets the hosts that get none any more.
func (s *gridSender) note(host string, now time.Time) {
	s.mu.Lock()
	s.used[host] = now
	var idle []string
	if now.Sub(s.sweptAt) >= idleMax/4 {
		s.sweptAt = now
		for other, at := range s.used {
			if now.Sub(at) >= idleMax {
				idle = append(idle, other)
				delete(s.used, other)
			}
		}
		maps.DeleteFunc(s.plain, func(_ string, until time.Time) bool { return !now.Before(until) })
	}
	s.mu.Unlock()
	for _, other := range idle {
		s.grid.Peer(other).Forget()
	}
}

func (s *gridSender) isPlain(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.plain[host]
	if ok && !time.Now().Before(until) {
		delete(s.plain, host)
		return false
	}
	return ok
}

func hasCode(err error, code grid.Code) bool {
	var failed *grid.Error
	return errors.As(err, &failed) && failed.Code == code
}

// isAnswer tells an error that a server answered with from one that says that it does not answer.
func isAnswer(err error) bool {
	var status *StatusError
	return errors.As(err, &status) || hasCode(err, grid.CodeBusy) || hasCode(err, grid.CodeFailed)
}
