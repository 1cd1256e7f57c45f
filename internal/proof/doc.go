// Package proof runs whole loops against real servers, and judges the histories that the servers themselves
// record. What runs in memory, step by step, is in the packages of the loop and of the fan; docs/testing.md says how
// the proofs fit together.
package proof
