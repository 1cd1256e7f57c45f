// Package queue is the command "tailrace queue": it looks into queues, checks and
// repairs them, while no server has them open.
package queue
