// Predicts the samples of a raw file of float32 numbers: embed RUN INPUT OUTPUT
#include <dlc.hpp>

#include <fstream>
#include <iostream>
#include <iterator>

int main(int argc, char **argv) {
    if (argc != 4) return std::cerr << "embed RUN INPUT OUTPUT\n", 2;
    try {
        dlc::model net(argv[1]);
        std::ifstream in(argv[2], std::ios::binary | std::ios::ate);
        std::vector<float> x(std::size_t(in.tellg()) / sizeof(float));
        in.seekg(0).read(reinterpret_cast<char *>(x.data()),
                         std::streamsize(x.size() * sizeof(float)));

        std::vector<float> y = net.predict(x);

        std::ofstream out(argv[3], std::ios::binary);
        out.write(reinterpret_cast<const char *>(y.data()),
                  std::streamsize(y.size() * sizeof(float)));
        return in && out.flush() ? 0 : 4;
    } catch (const dlc::error &e) {
        std::cerr << e.what() << "\n";
        return e.code();
    }
}
