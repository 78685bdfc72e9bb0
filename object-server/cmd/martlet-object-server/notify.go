package main

import (
	"net"
	"os"
)

// sayReady tells systemd that the server accepts requests (Type=notify, sd_notify(3)), if systemd waits for it. A failure is
// not worth an end of the server.
func sayReady() {
	path := os.Getenv("NOTIFY_SOCKET") // "@" in front is an abstract socket, as net has it
	if path == "" {
		return
	}
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer connection.Close()
	_, _ = connection.Write([]byte("READY=1"))
}
