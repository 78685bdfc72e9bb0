package bundle

import "errors"

// ErrNotWritten: an append failed and left nothing of it in the log.
var ErrNotWritten = errors.New("bundle: nothing was written")
