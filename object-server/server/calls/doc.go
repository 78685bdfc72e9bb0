// Package calls makes calls that may never return, as those to the file system of a disk that hangs. The caller waits for
// a limited time; the call goes on in the background.
//
// Invariant: at most one call of a name runs at a time. So a disk that hangs holds one goroutine, and one thread, for each
// kind of call. The package stands on package awake alone. It knows nothing of devices or HTTP; packages devices and recon
// use it.
package calls
