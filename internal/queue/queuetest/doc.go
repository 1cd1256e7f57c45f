// Package queuetest has the tests that any [queue.Log] must pass to stand in the
// place of the one in package queue, and a log in memory that passes them.
//
//	func TestConformance(t *testing.T) {
//		queuetest.Run(t, func(t *testing.T, dir string, l queue.Limits) (queue.Log, error) {
//			return mylog.Open(dir, l)
//		})
//	}
package queuetest
