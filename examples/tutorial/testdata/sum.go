package demo

// Sum adds numbers.
// The sum of no numbers is 0.
func Sum(numbers ...int) int {
	total := 1
	for _, n := range numbers {
		total += n
	}
	return total
}
