# make with gcc, twice, in parallel; the second time there is nothing to do but one file.
set -e
mkdir c && cd c
{ echo 'int main(void){int s=0;'; i=0; while [ $i -lt 20 ]; do
    printf 'int f%d(int x){return x+%d;}\n' $i $i > f$i.c
    echo "extern int f$i(int); s+=f$i(1);"; i=$((i + 1))
  done; echo 'return s!=210;}'; } > main.c
cat > Makefile <<'M'
OBJ = $(patsubst %.c,%.o,$(wildcard *.c))
prog: libf.a main.o
	gcc -o $@ main.o libf.a
libf.a: $(filter-out main.o,$(OBJ))
	ar rcD $@ $^
%.o: %.c
	gcc -O1 -MMD -c -o $@ $<
M
make -s -j4
./prog && echo ran
touch f3.c
make -j4 | grep -c 'gcc -O1'
make -q && echo up to date
