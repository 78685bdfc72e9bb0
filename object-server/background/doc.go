// Package background gives the processes of background work a low priority, for the CPU and for the disk.
package background
