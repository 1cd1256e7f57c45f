// Package bench measures whole loops against ceilings of the same run: what the same server takes from a
// hand-written loader. Figures are ratios, because machines differ and are noisy.
//
//	make bench PKGS=./bench
package bench
