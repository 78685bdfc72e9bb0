package grid

import (
	"context"
	"errors"
	"fmt"
)

// Code says why a request failed. The values are on the wire.
type Code uint64

// The codes of doc/formats/grid.md. A request that ended with CodeUnknownName, CodeBusy, CodeBadPayload or CodeGoingAway was
// not executed, nor was one that a limit stopped before it was sent. With the other codes it may have been.
const (
	CodeUnknownName Code = 1 // the responder has no handler of that name
	CodeBusy        Code = 2 // a limit of the responder is reached
	CodeTooLarge    Code = 3 // the payload is larger than the responder accepts, or the answer than the requester does
	CodeBadPayload  Code = 4 // the payload cannot be decoded, or a value in it is wrong
	CodeDeadline    Code = 5 // the deadline has passed
	CodeCancelled   Code = 6 // the requester cancelled, or the connection ends
	CodeFailed      Code = 7 // the handler failed
	CodeGoingAway   Code = 8 // the responder is about to stop
)

var codeNames = map[Code]string{
	CodeUnknownName: "unknown name", CodeBusy: "busy", CodeTooLarge: "too large", CodeBadPayload: "bad payload",
	CodeDeadline: "deadline", CodeCancelled: "cancelled", CodeFailed: "failed", CodeGoingAway: "going away",
}

func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("code %d", uint64(c))
}

// Error is what ended a request or a stream. A handler returns one to choose the code; any other error of a handler is
// sent with CodeFailed. A requester gets the responder's, or its own if a limit stops the request before it is sent.
type Error struct {
	Code   Code
	Reason string
}

func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Code.String()
	}
	return e.Code.String() + ": " + e.Reason
}

// Is lets errors.Is find context.DeadlineExceeded and context.Canceled.
func (e *Error) Is(target error) bool {
	return e.Code == CodeDeadline && target == context.DeadlineExceeded || e.Code == CodeCancelled && target == context.Canceled
}

// The errors of connections.
var (
	// ErrUnreachable says that there is no connection and none could be made. Nothing was sent.
	ErrUnreachable = errors.New("the peer cannot be reached")
	// ErrLost says that the connection ended under a request. The request may have been executed; it may be sent again
	// with the flag Resent.
	ErrLost = errors.New("the connection was lost")
	// ErrRefused says that one side refused the other in the handshake.
	ErrRefused = errors.New("the handshake was refused")
	// ErrNoGrid says, beside ErrRefused, that the server speaks HTTP but not this protocol.
	ErrNoGrid = errors.New("the peer has no grid")
	// ErrProtocol says that the peer broke a rule of the wire, so the connection ended.
	ErrProtocol = errors.New("the peer broke the protocol")
	// ErrClosed says that this side has ended the connection, or the stream.
	ErrClosed = errors.New("closed")
)

// errUnsent is the end of a request that was not written to a connection, so another connection may take it.
var errUnsent = errors.New("not sent")

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrProtocol, fmt.Errorf(format, args...))
}

// asError is what the wire says of the error of a handler.
func asError(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{CodeDeadline, err.Error()}
	case errors.Is(err, context.Canceled):
		return &Error{CodeCancelled, err.Error()}
	}
	return &Error{CodeFailed, err.Error()}
}
